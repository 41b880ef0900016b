# What is refused, and what to give instead.
twinrun top last
twinrun top --every 0
twinrun top --every 2h
twinrun top --once --against nosuch
