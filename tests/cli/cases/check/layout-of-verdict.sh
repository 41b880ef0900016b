# A verdict fits one screen.
twinrun check -q --steps 60 -- "$TRAINER" >said
"$PYTHON" -c 'lines = open("said").read().splitlines(); print(len(lines) <= 24, max(map(len, lines)) <= 100)'
