printf "{\"model\": {\"depth\": 3, \"act\": \"relu\"}}" >a.json
printf "model:\n  depth: 4\n  width: 8\n  act: relu\n" >b.yaml
twinrun digest --config a.json b.yaml
