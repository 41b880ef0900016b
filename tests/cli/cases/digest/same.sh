printf "lr: 1e-1\nbetas: [0.9, 0.999]\n# a comment\n" >a.yaml
printf "betas = [ 0.90, 999e-3 ]\nlr = 0.1\n" >b.toml
twinrun digest --config a.yaml b.toml
