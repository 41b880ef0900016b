# The scripts are accepted by their shells, and bash completes with them.
twinrun --completion bash >twinrun.bash
twinrun --completion zsh >_twinrun
bash -n twinrun.bash && echo "bash reads it"
if command -v zsh >/dev/null; then zsh -n _twinrun || echo "zsh refuses it"; fi
if command -v shellcheck >/dev/null; then shellcheck -s bash twinrun.bash || echo "shellcheck complains"; fi
mkdir -p .twinrun/runs/some-run
cat >complete.bash <<'END'
source ./twinrun.bash
ask() {
    COMP_WORDS=("$@")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _twinrun
    echo "$* -> ${COMPREPLY[*]}"
}
ask twinrun re
ask twinrun record --le
ask twinrun record --level t
ask twinrun show ""
ask twinrun show --ver
ask twinrun help d
END
bash complete.bash
