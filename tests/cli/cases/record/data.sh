mkdir data
echo 1 >data/a
echo 2 >data/b
twinrun snapshot data >/dev/null
twinrun record --data data=data.snapshot --data data -- cat data/a
python3 - .twinrun/runs/*/run.json <<'END'
import json, sys
root = [line for line in open("data.snapshot")][1].split(":")[1].strip()
for d in json.load(open(sys.argv[1]))["data"]:
    print(d["folder"], d["manifest"], d["root"] == root, d["files"], d["bytes"])
END
echo 3 >data/a
rm data/b
for command in record run check isolate; do
    twinrun $command --data data -- touch ran
    echo "exit $?"
done
twinrun record --data missing -- touch ran
echo "exit $?"
ls
