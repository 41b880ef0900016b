# Two arms that print other text. Names may differ; a digest, or a number within a word, may be a
# result: then "same" would say more than was compared.
arms() {
    twinrun check -q --a "$JOB --steps 4 && $1" --b "$JOB --steps 4 && $2" >out
    code=$?
    sed -n '1p;/^unseen/,/^next/p' out | grep -v '^next'
    echo "exit $code"
}
arms 'echo wrote first' 'echo wrote second'
arms 'echo weights sha1a2bf' 'echo weights sha3c4df'
arms 'echo result 0x1.8p+1' 'echo result 0x1.9p+1'
