printf "{}" >config
twinrun digest --config config
