PATH=$(dirname "$(command -v twinrun)") twinrun check -- no-such-program --flag
# A PATH of many folders is counted; what is a script is named with what runs it.
long=$(dirname "$(command -v twinrun)")$(printf ':/no/such/folder/%s' 1 2 3 4 5 6):/bin
PATH=$long twinrun check -- no-such-program
PATH=$long twinrun check -- no-such-script.py
echo pass >here.py
PATH=$long twinrun check -- here.py
chmod +x here.py
PATH=$long twinrun check -- here.py
