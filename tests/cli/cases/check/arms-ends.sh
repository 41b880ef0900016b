# Arms that end at other steps: what they print of their ends is not compared, and that is said.
echo "$JOB --steps \$1; echo total \$2" >job.sh
twinrun check -q --no-zoom --a 'sh job.sh 20 0.5' --b 'sh job.sh 5 0.75' | sed -z 's/\n        / /g' | grep -o 'stdout: numbers in .*'
