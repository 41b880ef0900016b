# A deterministic job: same, exit 0, three run lines.
twinrun check -- "$JOB"
