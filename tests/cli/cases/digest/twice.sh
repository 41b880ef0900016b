printf "a: 1\na: 2\n" >a.yaml
twinrun digest --config a.yaml
