twinrun digest --argv --canonical -- python train.py --lr 0.1 --amp
echo
a=$(twinrun digest --argv --json -- python train.py --lr 0.1 --amp seed=3)
b=$(twinrun digest --argv --json -- python train.py seed=3 --amp --lr=0.1)
python3 -c "import json,sys; a,b=(json.loads(x)[\"items\"][0] for x in sys.argv[1:]); print(a[\"canonical\"]==b[\"canonical\"], a[\"raw\"]==b[\"raw\"])" "$a" "$b"
