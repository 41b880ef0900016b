# fish reads its script and completes with it, the job's own words too.
if ! command -v fish >/dev/null; then
    echo "fish is not here"
    exit 77
fi
twinrun --completion fish >twinrun.fish
mkdir -p .twinrun/runs/some-run
mkdir home
cat >ask.fish <<'END'
source ./twinrun.fish
complete -c train -f -l epochs
function ask
    echo "$argv ->" (complete -C "$argv" | string replace -r '\t.*' '')
end
ask 'twinrun re'
ask 'twinrun record --le'
ask 'twinrun record --level t'
ask 'twinrun show '
ask 'twinrun show --ver'
ask 'twinrun help di'
ask 'twinrun check -q -- train --ep'
END
HOME=$PWD/home fish --no-config ask.fish
