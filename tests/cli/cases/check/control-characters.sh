# Nothing that a job is called or prints reaches the terminal raw.
twinrun record -q -- sh -c 'exit 0' "$(printf 'evil\033[31m\nname')"
twinrun ls | tr -d '\n' | LC_ALL=C grep -c "$(printf '\033')"
twinrun ls | wc -l
