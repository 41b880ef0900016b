# On a terminal: labels and outcomes in colours, long lines broken below their text, commands whole. Not with NO_COLOR, and no colours in a pipe.
cat >words.py <<'END'
print(hash("word"))
END
on_terminal() {
    "$PYTHON" "$CASES/../on_terminal.py" --answer "$@" | sed 's/\x1b/~/g'
}
on_terminal twinrun isolate -q --pin hash-seed,aslr -- "$PYTHON" words.py >said
grep -oE '^.*outcome.*(cause)[^,]*' said
sed -n '/left.*0m/,/more/p' said | sed 's/  */ /g'
grep -vE 'twinrun|page|/searches/' said | sed 's/~\[[0-9;]*m//g' | awk 'length($0) > 60'
grep -A1 'next' said | grep -c "hash-seed,aslr -- $PYTHON words.py$\|pinned -- $PYTHON words.py$"
NO_COLOR=1 on_terminal twinrun isolate -q --resume --pin hash-seed,aslr -- "$PYTHON" words.py >plain
grep -c '~' plain
sed 's/~\[[0-9;]*m//g' said | diff - plain && echo "the same words"
twinrun isolate -q --resume --pin hash-seed,aslr -- "$PYTHON" words.py >piped
grep -c "$(printf '\033')" piped
grep -cE '^left .* would show it \(--thorough\)$' piped
echo "--- diff --env and report"
PYTHONHASHSEED=1 twinrun record -q -- "$PYTHON" words.py >words
PYTHONHASHSEED=2 twinrun record -q -- "$PYTHON" words.py >words
on_terminal twinrun diff --env last~1 last | grep -oE '~.*(SAME|DIFFER|decides).*' | sed 's/ in .*//'
on_terminal twinrun report last~1 last | grep -E 'NUMERIC|DIFFERENCE|bits' | sed 's/  *[a-z]*[,:-].*//'
