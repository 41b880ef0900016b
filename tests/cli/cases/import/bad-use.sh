twinrun import
twinrun import --csv x.csv --mlflow http://127.0.0.1:9
twinrun import --csv x.csv
twinrun import --csv x.csv -m loss -o c.json --take first
twinrun import --csv x.csv -m loss -o c.json --filter x
twinrun import --tensorboard x -m loss -o c.json --run-column x
twinrun import --csv x.csv -m loss -o c.json
