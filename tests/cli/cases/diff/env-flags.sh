# Variables that decide what TensorFlow, XLA and Keras compute, and with what, are named.
TF_XLA_FLAGS=--tf_xla_auto_jit=1 XLA_FLAGS=--xla_cpu_max_isa=AVX2 KERAS_BACKEND=jax TF_ENABLE_ONEDNN_OPTS=0 TF_NUM_INTEROP_THREADS=2 twinrun record -q -- "$JOB" --steps 2 >/dev/null
KERAS_BACKEND=torch TF_ENABLE_ONEDNN_OPTS=1 twinrun record -q -- "$JOB" --steps 2 >/dev/null
twinrun diff --env last~1 last | sed -n '/^decides/,/^$/p'
