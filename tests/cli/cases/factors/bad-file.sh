printf '[[factor]]\nid = "user:a"\nlayre = "data"\n' >f.toml
twinrun factors --factor-file f.toml
