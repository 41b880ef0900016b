# Runs: by label, by what they printed; one that failed is left out and named, times not shown here.
for i in 1 2 3 4 5; do twinrun record -q --label old -- sh -c "echo epoch 1 accuracy=0.5; echo accuracy=0.8$i" > /dev/null; done
for i in 1 2 3 4 5; do twinrun record -q --label new -- sh -c "echo accuracy=0.9$i" > /dev/null; done
twinrun record -q --label new -- sh -c 'echo accuracy=0.1; exit 3' > /dev/null
twinrun significant -m 'printed:accuracy=([0-9.]+)' label:old label:new | sed 's/, on [^ )]*//g; s/, commit [0-9a-f]*\( with changes\)*//g; s/[0-9TZ-]*-new-[0-9a-f]*/RUN/'; echo
twinrun significant label:old label:new > /dev/null 2>&1; test $? -ne 2 && echo measured
twinrun significant -m loss label:old label:new; echo "exit $?"
twinrun significant last,last last~1; echo "exit $?"
# A label that covers another program, too: its values are no sample of one thing.
twinrun record -q --label mixed -- sh -c 'echo accuracy=0.5' >/dev/null
twinrun record -q --label mixed -- true >/dev/null
twinrun significant label:mixed label:new; echo "exit $?"
twinrun report label:mixed label:new; echo "exit $?"
twinrun significant label:nobody label:new; echo "exit $?"
# A run whose loss is no number any more is left out, and named for what it is.
for i in 1 2 3; do
    PYTHONPATH="$ROOT/python" twinrun record -q --label burst -- "$PYTHON" -c 'import array, twinrun; twinrun.record("loss:loss", array.array("d", [float("nan")])); twinrun.step()' >/dev/null
done
twinrun significant -m loss label:burst label:burst 2>&1 | sed 's/[0-9TZ-]*-burst-[0-9a-f]*/RUN/g'
