# R's example of wilcox.test; a real difference; one below the floor; equality; too few.
echo "0.80 0.83 1.89 1.04 1.45 1.38 1.91 1.64 0.73 1.46" > x
printf '1.15 0.88\n0.90 0.74 # a comment\n1.21\n' > y
echo "[100, 100.5, 101, 101.5, 102]" > a.json
printf 'loss,time\r\n1,"104"\r\n2,104.5\r\n3,105\r\n4,105.5\r\n5,106\r\n' > b.csv
twinrun significant y x; echo "exit $?"
twinrun significant a.json b.csv:time; echo "exit $?"
twinrun significant a.json b.csv:2 --floor 5 | head -2; echo "exit $?"
twinrun significant a.json b.csv:time --within 5%; echo "exit $?"
twinrun significant --question bitwise a.json a.json | head -1
twinrun significant --question speed a.json b.csv:time | grep -o 'by the two-sided Mann-Whitney.* ratio'
echo 1 2 3 > few
twinrun significant few few | head -2
twinrun significant --json y x | "$PYTHON" -c 'import json, sys; j = json.load(sys.stdin); print(j["schema"], j["answer"], round(j["p"], 7), round(j["effect"], 3), j["a"]["values"])'
