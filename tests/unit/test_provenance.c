/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is taken for a secret and what is not; the keyed replacement; how differences between worlds
 * are ranked and gathered, and ranks grouped. Real records of real jobs:
 * tests/agents/test_provenance.py.
 */
#include "src/launch/redact.h"
#include "src/provenance/provenance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "provenance_inside.h"
#include "secret_shapes.h"

/* ---- secrets */

static void masks(const char *text, const char *expected)
{
    char out[512];
    int pending = TW_SECRET_NONE;
    size_t n = tw_secret_mask(&pending, text, strlen(text), out, sizeof out);
    if (strcmp(out, expected) != 0)
        fail_msg("%s: expected %s, found %s", text, expected, out);
    assert_int_equal(n, strlen(expected));
}

static void test_secrets_are_found(void **state)
{
    (void)state;
    masks("--api-key=abcdef", "--api-key=[redacted]");
    masks("--password=my long one", "--password=[redacted]");
    masks("--db-password abc def", "--db-password [redacted] def");
    masks("DB_PASSWORD=abc", "DB_PASSWORD=[redacted]");
    masks("dbPassword: 'a b'", "dbPassword: '[redacted]'");
    masks("{\"auth_token\": \"abcdef\", \"n\": 1}", "{\"auth_token\": \"[redacted]\", \"n\": 1}");
    masks("https://ana:pw@host/x", "https://[redacted]@host/x");
    masks("git+ssh://git@host/x", "git+ssh://git@host/x");
    masks("https://ghp_abcDEF0123456789abcdef0123@host/x", "https://[redacted]@host/x");
    masks("s3://b/k?access_token=abcdef&x=1", "s3://b/k?access_token=[redacted]&x=1");
    masks("curl -H 'Authorization: Bearer abcdefgh'", "curl -H 'Authorization: Bearer [redacted]'");
    masks("Bearer abcdefgh", "Bearer [redacted]");
    masks("use hf_AbCdEfGhIjKlMnOpQrSt here", "use [redacted] here");
    masks("AKIAIOSFODNN7EXAMPLE", "[redacted]");
    masks("SESSION_COOKIE=xyz", "SESSION_COOKIE=[redacted]");
    masks("-----BEGIN RSA PRIVATE KEY-----\nabc", "[redacted]");
    masks("A=1 TOKEN=abcdef B=2 SECRET=ghi", "A=1 TOKEN=[redacted] B=2 SECRET=[redacted]");
}

/* Each row of the table of shapes, by itself, in an address, in a variable and in a sentence. */
static void test_every_shape_of_the_table(void **state)
{
#define TW_SHAPE(service, begin, alphabet, least, vector) begin vector,
    static const char *const tokens[] = {TW_SECRET_SHAPES};
#undef TW_SHAPE
    static const char *const around[][2] = {
        {"", ""},
        {"https://host/x?y=", "&z=1"},
        {"X='", "'"},
        {"the text ", " goes on"},
        {"{\"a\": \"", "\"}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        for (size_t k = 0; k < sizeof around / sizeof around[0]; k++) {
            char *text = tw_printf("%s%s%s", around[k][0], tokens[i], around[k][1]);
            char *expected = tw_printf("%s[redacted]%s", around[k][0], around[k][1]);
            masks(text, expected);
            masks(expected, expected); /* once */
            tw_free(text);
            tw_free(expected);
        }
}

static void test_secrets_of_addresses_and_commands(void **state)
{
    (void)state;
    masks("https://b.s3.aws/k?X-Amz-Signature=0c3d9ab14f7e&X-Amz-Date=1",
          "https://b.s3.aws/k?X-Amz-Signature=[redacted]&X-Amz-Date=1");
    masks("https://a.blob.net/c?sv=2020&sig=a%2Fb%3D&se=1",
          "https://a.blob.net/c?sv=2020&sig=[redacted]&se=1");
    masks("https://0c3d9ab14f7e62858d90b1c2a3f4e5d6@o1.ingest.sentry.io/2",
          "https://[redacted]@o1.ingest.sentry.io/2");
    masks("https://x-access-token:abc@github.com/a/b", "https://[redacted]@github.com/a/b");
    masks("curl -u ana:hunter2 https://h/x", "curl -u ana:[redacted] https://h/x");
    masks("curl --user 'ana:hunter2' https://h/x", "curl --user 'ana:[redacted]' https://h/x");
    masks("--proxy-user=ana:hunter2", "--proxy-user=ana:[redacted]");
    masks("sshpass -p hunter2 ssh h", "sshpass -p [redacted] ssh h");
    masks("/usr/bin/sshpass -phunter2 ssh h", "/usr/bin/sshpass -p[redacted] ssh h");
    masks("--pass hunter2", "--pass [redacted]");
    masks("DB_PASS=hunter2", "DB_PASS=[redacted]");
    masks("password: hunter2", "password: [redacted]");
    masks("Endpoint=sb://x/;SharedAccessKey=abcdefg;Y=1",
          "Endpoint=sb://x/;SharedAccessKey=[redacted];Y=1");
}

static void test_random_texts_are_found_and_names_are_not(void **state)
{
    static const char *const names[] = {
        "20122afca85120122afca85120122afca8512012",                         /* a commit */
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", /* a digest */
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",              /* one in base64 */
        "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU",
        "550e8400-e29b-41d4-a716-446655440000", /* a UUID */
        "2026-11-21T22-19-34Z-run-090fc5ac",    /* a run */
        "/home/ana/projects/ResNet50_ImageNet1k_V2/checkpoints/epoch_090.pt",
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl",
        "test_every_command_that_makes_a_home_hides_it_from_git",
        "model.layers.31.self_attn.q_proj.weight",
        "Qwen2.5-72B-Instruct-GPTQ-Int4-w8a8-kv8-2024-10-01-FP16",
        "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8-dynamic-2024",
        "/nix/store/s66mzxpvicwk07gjbjfw9izjfa797vsw-python3-3.11",
        "0000000000000000000000000000000000000000",
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
        "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS_V2_2024_X8",
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        masks(names[i], names[i]);
    masks("run --it wJalrXUtnFEMI/K7MDENG/bPxRfiCYk3Xq9aB2 now", "run --it [redacted] now");
    masks("wandb=K3x9QmT7vB2nR8sL5wY1zC6dF4gH0jPa", "wandb=[redacted]");
    /* Of 1,000 random texts 19 in 20 are found, of 1,000 hex ones none. */
    static const char base62[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t seed = 11;
    size_t found = 0, hex = 0;
    for (int round = 0; round < 1000; round++) {
        char text[41] = "", digits[41] = "";
        for (size_t i = 0; i < 40; i++) {
            seed = tw_mix64(seed + 1);
            text[i] = base62[seed % 62];
            digits[i] = "0123456789abcdef"[seed % 16];
        }
        found += tw_secret_random(text, 40) == 40;
        hex += tw_secret_random(digits, 40) != 0;
    }
    if (found < 930 || hex)
        fail_msg("found %zu of 1,000 random texts, and %zu digests", found, hex);
}

static void test_other_words_are_kept(void **state)
{
    static const char *const texts[] = {"--max-tokens=512",
                                        "--pad-token <pad>",
                                        "--sort-key=loss",
                                        "--num-keys 12",
                                        "--tokenizer=gpt2",
                                        "--author=ana",
                                        "--key-dim=64",
                                        "--token 5",
                                        "--password-file=/run/x",
                                        "http://host:80/a@b",
                                        "torch==2.1",
                                        "a=b",
                                        "keyboard=abcdef",
                                        "token_type=wordpiece",
                                        "--use-auth-token-dir=x",
                                        "",
                                        "sk-learn",
                                        "hf_",
                                        "https://host/user@x",
                                        "docker run -u 1000:1000 x",
                                        "python -u train.py",
                                        "--num-pass=three",
                                        "first_pass=fast",
                                        "second pass: loading",
                                        "[redacted]",
                                        "--token [redacted:0c3d9ab14f7e6285]",
                                        "--lr=0.1",
                                        "model.attention.key=linear",
                                        "monkey=abcdef"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        masks(texts[i], texts[i]);
}

static void test_across_arguments(void **state)
{
    static const char *const argv[] = {"--token", "abc def", "x",         "--secret",
                                       "--lr",    "0.1",     "--password"};
    static const char *const expected[] = {"--token", "[redacted]", "x",         "--secret",
                                           "--lr",    "0.1",        "--password"};
    char out[64];
    int pending = TW_SECRET_NONE;
    (void)state;
    for (size_t i = 0; i < 7; i++) {
        tw_secret_mask(&pending, argv[i], strlen(argv[i]), out, sizeof out);
        assert_string_equal(out, expected[i]);
    }
    assert_int_equal(pending, TW_SECRET_VALUE);
    static const char *const others[] = {"curl", "-u",      "ana:hunter2", "sshpass",
                                         "-p",   "hunter2", "ssh",         "-u",
                                         "root", "sshpass", "-phunter2"};
    static const char *const masked[] = {
        "curl", "-u", "ana:[redacted]", "sshpass", "-p",          "[redacted]",
        "ssh",  "-u", "root",           "sshpass", "-p[redacted]"};
    pending = TW_SECRET_NONE;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        tw_secret_mask(&pending, others[i], strlen(others[i]), out, sizeof out);
        assert_string_equal(out, masked[i]);
    }
    assert_int_equal(pending, TW_SECRET_NONE);
}

static void test_a_mask_fits_its_room(void **state)
{
    char out[32];
    (void)state;
    for (size_t room = 1; room < sizeof out; room++) {
        int pending = TW_SECRET_NONE;
        memset(out, 'x', sizeof out);
        size_t n = tw_secret_mask(&pending, "ab --token=abcdefgh cd", 22, out, room);
        assert_true(n < room && out[n] == '\0' && !strstr(out, "abcd"));
        for (size_t i = n + 1; i < sizeof out; i++)
            assert_int_equal(out[i], 'x');
    }
}

/* Nothing in, nothing strange out: every span lies within the text and moves on. */
static void test_any_bytes(void **state)
{
    static const char bits[] = "--token=\"':/@ \tBearerghp_-----BEGINPRIVATE KEY&?aA0\x80";
    char text[96];
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t n = 0, at = 0, from = 0, to = 0, last = 0;
        int pending = round & 3;
        for (size_t want = (seed = tw_mix64(seed + 1)) % sizeof text; n < want; n++)
            text[n] = bits[(seed = tw_mix64(seed + 1)) % (sizeof bits - 1)];
        while (tw_secret_next(&pending, text, n, &at, &from, &to)) {
            assert_true(from >= last && from < to && to <= n && at >= to);
            last = to;
        }
        assert_int_equal(at, n);
    }
}

static void test_variables(void **state)
{
    static const char *const kept[] = {"OMP_NUM_THREADS",
                                       "NCCL_ALGO",
                                       "PATH",
                                       "RANK",
                                       "CUBLAS_WORKSPACE_CONFIG",
                                       "UCX_TLS",
                                       "TF_XLA_FLAGS",
                                       "TF_NUM_INTRAOP_THREADS",
                                       "XLA_FLAGS",
                                       "KERAS_BACKEND",
                                       "TF_ENABLE_ONEDNN_OPTS"};
    static const char *const not_kept[] = {
        "HF_TOKEN",   "NCCL_AUTH_TOKEN", "MY_NAME", "AWS_SECRET_ACCESS_KEY",
        "MKL_COOKIE", "TORCH_APIKEY",    "PATHS",   ""};
    (void)state;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        assert_true(tw_secret_variable_kept(kept[i], strlen(kept[i])));
    for (size_t i = 0; i < sizeof not_kept / sizeof not_kept[0]; i++)
        assert_false(tw_secret_variable_kept(not_kept[i], strlen(not_kept[i])));
}

static void test_the_keyed_replacement(void **state)
{
    char dir[] = "/tmp/twinrun-redact-XXXXXX";
    struct twin_redactor *a = NULL, *b = NULL;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(twin_redactor_open(dir, &a, NULL), 0);
    assert_int_equal(twin_redactor_open(dir, &b, NULL), 0);
    assert_int_equal(strlen(twin_redactor_key_id(a)), 16);
    assert_string_equal(twin_redactor_key_id(a), twin_redactor_key_id(b));
    char *x = twin_redact(a, "x --token=abcdef y", NULL);
    char *y = twin_redact(b, "x --token=abcdef y", NULL);
    char *z = twin_redact(b, "x --token=abcdeg y", NULL);
    assert_string_equal(x, y);
    assert_string_not_equal(y, z);
    assert_true(twin_redacted(x) && tw_starts(x, "x --token=[redacted:") && tw_ends(x, "] y") &&
                strlen(x) == strlen("x --token=[redacted:0123456789abcdef] y"));
    assert_false(twin_redacted("x [red] [redacted") || twin_redacted("") ||
                 twin_redacted("--redact=1"));
    char *kept = twin_redact_variable(a, "OMP_NUM_THREADS", "4");
    char *hidden = twin_redact_variable(a, "MY_NAME", "4");
    assert_string_equal(kept, "4");
    assert_true(twin_redacted(hidden));
    char *all[] = {x, y, z, kept, hidden};
    for (size_t i = 0; i < 5; i++)
        tw_free(all[i]);
    twin_redactor_close(a);
    twin_redactor_close(b);
    assert_int_equal(tw_remove_tree(dir, NULL, NULL), 0);
}

/* ---- differences */

static json_t *from(const char *text)
{
    json_error_t why;
    json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!o)
        fail_msg("%s: %s", text, why.text);
    return o;
}

static struct twin_world_differences compared(const char *x, const char *y)
{
    struct twin_world_differences d;
    json_t *a = from(x), *b = from(y);
    assert_int_equal(twin_provenance_diff(a, b, &d, NULL), 0);
    json_decref(a);
    json_decref(b);
    return d;
}

static void test_what_differs_is_ranked(void **state)
{
    static const char a[] =
        "{\"host\":\"p\",\"code\":{\"commit\":\"1111111111111111\",\"tree\":\"t\",\"dirty\":false},"
        "\"environment\":{\"kernel\":{\"release\":\"6.1\"},\"cpu\":{\"flags\":\"avx avx2 "
        "sse\",\"microcode\":\"1\"}},\"launch\":{\"variables\":{\"OMP_NUM_THREADS\":\"1\",\"MASTER_"
        "PORT\":\"1\",\"LANG\":\"C\"}},\"packages\":{\"dpkg\":{\"p1\":\"1\",\"p2\":\"1\",\"p3\":"
        "\"1\",\"p4\":\"1\",\"p5\":\"1\",\"p6\":\"1\",\"p7\":\"1\",\"same\":\"1\"}}}";
    static const char b[] =
        "{\"host\":\"q\",\"code\":{\"commit\":\"2222222222222222\",\"tree\":\"u\",\"dirty\":false},"
        "\"environment\":{\"kernel\":{\"release\":\"6.2\"},\"cpu\":{\"flags\":\"avx avx512f "
        "sse\",\"microcode\":\"2\"}},\"launch\":{\"variables\":{\"MASTER_PORT\":\"2\",\"LANG\":"
        "\"D\"}},\"packages\":{\"dpkg\":{\"p1\":\"2\",\"p2\":\"2\",\"p3\":\"2\",\"p4\":\"2\","
        "\"p5\":\"2\",\"p6\":\"2\",\"p7\":\"2\",\"same\":\"1\"}}}";
    static const struct {
        enum twin_power power;
        const char *group, *what, *a, *b;
        size_t count;
    } expected[] = {
        {TWIN_POWER_HIGH, "code", "commit", "111111111111", "222222222222", 1},
        {TWIN_POWER_HIGH, "processor", "instruction sets", "only here: avx2", "only here: avx512f",
         1},
        {TWIN_POWER_HIGH, "variables", "OMP_NUM_THREADS", "1", NULL, 1},
        {TWIN_POWER_MEDIUM, "processor", "microcode", "1", "2", 1},
        {TWIN_POWER_MEDIUM, "variables", "LANG", "C", "D", 1},
        {TWIN_POWER_LOW, "packages", "7 system packages, among them p1", "1", "2", 7},
        {TWIN_POWER_LOW, "system", "kernel", "6.1", "6.2", 1},
        {TWIN_POWER_NOISE, "variables", "MASTER_PORT", "1", "2", 1},
        {TWIN_POWER_NOISE, "system", "host", "p", "q", 1},
    };
    struct twin_world_differences d = compared(a, b);
    (void)state;
    assert_int_equal(d.count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < d.count; i++) {
        assert_string_equal(d.item[i].what, expected[i].what);
        assert_string_equal(d.item[i].group, expected[i].group);
        assert_int_equal(d.item[i].power, expected[i].power);
        assert_int_equal(d.item[i].count, expected[i].count);
        assert_true(expected[i].a ? strcmp(d.item[i].a, expected[i].a) == 0 : !d.item[i].a);
        assert_true(expected[i].b ? strcmp(d.item[i].b, expected[i].b) == 0 : !d.item[i].b);
    }
    twin_world_differences_free(&d);
}

static void test_what_is_not_known_makes_no_difference(void **state)
{
    static const char *const pairs[][2] = {
        {"{}", "{\"code\":{\"commit\":\"1\",\"dirty\":true,\"diff\":{\"sha256\":\"x\"}},\"launch\":"
               "{\"variables\":{\"A\":\"1\"}},\"ranks\":[{\"settings\":{\"threads\":\"1\"}}]}"},
        {"{\"code\":{\"commit\":null}}",
         "{\"code\":{\"commit\":\"1\",\"tree\":\"2\",\"dirty\":false}}"},
        /* ended before anybody looked at its processes */
        {"{\"launch\":{\"world\":0}}", "{\"launch\":{\"world\":1}}"},
        /* redacted under different keys */
        {"{\"redaction_key\":\"a\",\"launch\":{\"variables\":{\"X\":\"[redacted:1]\"}}}",
         "{\"redaction_key\":\"b\",\"launch\":{\"variables\":{\"X\":\"[redacted:2]\"}}}"},
        {"{\"libraries\":{\"files\":[]}}",
         "{\"libraries\":{\"files\":[{\"path\":\"/lib/libm.so\",\"sha256\":\"1\"}]}}"},
        {"{\"accelerators\":{\"gpus\":[],\"why\":\"the NVIDIA driver does not answer (nvmlInit: "
         "17)\"}}",
         "{\"accelerators\":{\"gpus\":[{\"name\":\"H100\"}],\"driver\":\"580.1\"}}"},
        /* stopped before its end: what the other one tells there is told of that one alone */
        {"{\"ranks\":[{\"settings\":{\"threads\":\"2\"},\"generators\":{\"random.first\":\"1\"}}]}",
         "{\"ranks\":[{\"settings\":{\"threads\":\"4\",\"autocast\":\"off\"},\"settings_at_start\":"
         "{\"threads\":\"2\"},\"generators\":{\"random.first\":\"1\",\"random.last\":\"2\"}}]}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (int turn = 0; turn < 2; turn++) {
            struct twin_world_differences d = compared(pairs[i][turn], pairs[i][1 - turn]);
            if (d.count)
                fail_msg("%s: %s", pairs[i][0], d.item[0].what);
            twin_world_differences_free(&d);
        }
}

/* A run that was stopped began otherwise; whether it drew, the run that ended tells. */
static void test_a_run_without_its_end(void **state)
{
    static const char stopped[] = "{\"ranks\":[{\"settings\":{\"threads\":\"2\"},\"generators\":{"
                                  "\"random.first\":\"1\",\"numpy.first\":\"3\"}}]}";
    static const char whole[] =
        "{\"ranks\":[{\"settings\":{\"threads\":\"2\",\"autocast\":\"off\"},"
        "\"settings_at_start\":{\"threads\":\"4\"},\"generators\":{"
        "\"random.first\":\"5\",\"random.last\":\"5\","
        "\"numpy.first\":\"6\",\"numpy.last\":\"7\"}}]}";
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct twin_world_differences d = compared(turn ? whole : stopped, turn ? stopped : whole);
        assert_int_equal(d.count, 3);
        assert_string_equal(d.item[0].what, "state of NumPy");
        assert_int_equal(d.item[0].power, TWIN_POWER_HIGH);
        assert_string_equal(d.item[1].what, "threads");
        assert_string_equal(turn ? d.item[1].a : d.item[1].b, "4");
        assert_string_equal(d.item[2].what, "state of Python's random (not used)");
        assert_int_equal(d.item[2].power, TWIN_POWER_NOISE);
        twin_world_differences_free(&d);
    }
    /* with neither end, nothing tells that nobody drew */
    static const char other[] = "{\"ranks\":[{\"generators\":{\"random.first\":\"9\"}}]}";
    struct twin_world_differences d = compared(stopped, other);
    assert_int_equal(d.count, 1);
    assert_int_equal(d.item[0].power, TWIN_POWER_HIGH);
    twin_world_differences_free(&d);
}

/* A machine without a driver has no GPU: that is known. */
static void test_a_machine_without_a_gpu_is_another_one(void **state)
{
    struct twin_world_differences d = compared(
        "{\"accelerators\":{\"gpus\":[],\"why\":\"libnvidia-ml.so.1 is not installed\"}}",
        "{\"accelerators\":{\"gpus\":[{\"name\":\"H100\"}]}}");
    (void)state;
    assert_int_equal(d.count, 1);
    assert_string_equal(d.item[0].what, "GPUs");
    assert_int_equal(d.item[0].power, TWIN_POWER_HIGH);
    twin_world_differences_free(&d);
}

/* A record of other types than ours is compared without harm. */
static void test_of_other_types(void **state)
{
    static const char *const odd[] = {
        "{\"code\":[],\"ranks\":{},\"libraries\":3,\"launch\":\"x\",\"packages\":[1],\"config\":{"
        "\"files\":[1,null,{\"path\":3}]},\"data\":{\"named\":[[]]}}",
        "{\"ranks\":[1,\"x\",{\"variables\":[],\"libraries\":99999999999},{\"libraries\":-1}],"
        "\"libraries\":{\"files\":[3,{}],\"lists\":[[7,-1,\"x\"],{}]}}"};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++) {
            struct twin_world_differences d = compared(odd[i], odd[k]);
            twin_world_differences_free(&d);
            json_t *o = from(odd[i]);
            assert_int_equal(twin_provenance_parity(o, &d, NULL), 0);
            twin_world_differences_free(&d);
            json_decref(o);
        }
}

static void test_libraries_by_package(void **state)
{
    static const char a[] =
        "{\"libraries\":{\"files\":[{\"path\":\"/v1/lib/python3/site-packages/torch/lib/"
        "libtorch.so\",\"sha256\":\"aa\"},{\"path\":\"/usr/lib/"
        "libz.so.1\",\"sha256\":\"bb\"},{\"path\":\"/usr/lib/"
        "libm.so.6\",\"sha256\":\"cc\"}]},\"packages\":{\"python\":{\"torch\":\"2.0\"}}}";
    static const char b[] =
        "{\"libraries\":{\"files\":[{\"path\":\"/other/lib/python3/site-packages/torch/lib/"
        "libtorch.so\",\"sha256\":\"dd\"},{\"path\":\"/lib/"
        "libz.so.1\",\"sha256\":\"bb\"},{\"path\":\"/usr/lib/"
        "libm.so.6\",\"sha256\":\"ee\"}]},\"packages\":{\"python\":{\"torch\":\"2.0\"}}}";
    struct twin_world_differences d = compared(a, b);
    (void)state;
    assert_int_equal(d.count, 2);
    assert_string_equal(d.item[0].what, "libm.so.6");
    assert_string_equal(d.item[1].what, "torch");
    assert_string_equal(d.item[1].a, "2.0");
    assert_string_equal(d.item[1].b, "2.0, other bytes");
    assert_int_equal(d.item[1].power, TWIN_POWER_HIGH);
    twin_world_differences_free(&d);
}

/* Who has started the ranks is none of them; a job of several processes without ranks has no such.
 */
static void test_parity_leaves_out_who_started_the_ranks(void **state)
{
    static const char spawned[] =
        "{\"ranks\":[{\"rank\":0,\"world\":1,\"settings\":{\"threads\":\"2\"}},"
        "{\"rank\":0,\"world\":2,\"settings\":{\"threads\":\"1\"}},"
        "{\"rank\":1,\"world\":2,\"settings\":{\"threads\":\"%s\"}}]}";
    static const char alone[] =
        "{\"ranks\":[{\"rank\":0,\"world\":1,\"settings\":{\"threads\":\"2\"}},"
        "{\"rank\":0,\"world\":1,\"settings\":{\"threads\":\"%s\"}}]}";
    static const struct {
        const char *form, *threads;
        size_t count;
    } rows[] = {{spawned, "1", 0}, {spawned, "4", 1}, {alone, "2", 0}, {alone, "1", 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct twin_world_differences d;
        char *text = tw_printf(rows[i].form, rows[i].threads);
        json_t *o = from(text);
        assert_int_equal(twin_provenance_parity(o, &d, NULL), 0);
        assert_int_equal(d.count, rows[i].count);
        twin_world_differences_free(&d);
        json_decref(o);
        tw_free(text);
    }
}

static void test_ranks_are_grouped(void **state)
{
    struct tw_buf b = {0};
    struct twin_world_differences d;
    (void)state;
    tw_buf_puts(&b, "{\"ranks\":[");
    for (int i = 0; i < 20; i++)
        tw_buf_printf(&b,
                      "%s{\"rank\":%d,\"variables\":{\"RANK\":\"%d\",\"NCCL_ALGO\":\"%s\"},"
                      "\"machine\":{\"nvidia_driver\":\"%s\"}}",
                      i ? "," : "", i, i, i % 2 ? "Ring" : "Tree", i == 17 ? "580.2" : "580.1");
    tw_buf_puts(&b, "]}");
    json_t *o = from(b.data);
    assert_int_equal(twin_provenance_parity(o, &d, NULL), 0);
    assert_int_equal(d.count, 2);
    assert_string_equal(d.item[1].what, "rank 17: nvidia_driver");
    assert_string_equal(d.item[1].a, "580.1");
    assert_string_equal(d.item[1].b, "580.2");
    assert_string_equal(d.item[1].groups,
                        "ranks 0-16, 18 and 19 have nvidia_driver 580.1, rank 17 has 580.2");
    assert_int_equal(d.item[1].power, TWIN_POWER_HIGH);
    assert_string_equal(d.item[0].what, "ranks 1, 3, 5, 7, 9, 11, 13, 15 and 2 more: NCCL_ALGO");
    assert_int_equal(d.item[0].count, 10);
    twin_world_differences_free(&d);
    json_decref(o);
    tw_buf_free(&b);
}

/* Writes what a rank of three says at its start, to be read as it stands there. */
static void announce(const char *dir, int rank, const char *more)
{
    char *path = tw_printf("%s/worlds/%d.%d", dir, rank, 100 + rank);
    char *text = tw_printf("rank\t%d\nworld\t3\npid\t%d\nenv\tRANK=%d\nenv\tOMP_PLACES={%d}\n%s",
                           rank, 100 + rank, rank, rank, more);
    assert_non_null(text);
    assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
    tw_free(text);
    tw_free(path);
}

/* The words at the end of a run; NULL: nothing to say. malloc'ed. */
static char *words_at_end(const char *dir)
{
    struct twin_parity *p = twin_parity_begin(dir);
    assert_non_null(p);
    assert_true(twin_parity_look(p, dir, true));
    assert_false(twin_parity_look(p, dir, true)); /* once */
    const char *words = twin_parity_words(p);
    char *copy = words ? tw_strdup(words) : NULL;
    twin_parity_free(p);
    return copy;
}

static void test_ranks_as_they_begin(void **state)
{
    (void)state;
    char dir[] = "/tmp/twin-parity-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *worlds = tw_path_join(dir, "worlds");
    assert_int_equal(mkdir(worlds, 0700), 0);
    announce(dir, 0, "version\ttorch 2.0\ntold\tlibrary\ntold\tpython\n");
    announce(dir, 1, "env\tNCCL_ALGO=Ring\n"); /* has not said all yet */
    struct twin_parity *p = twin_parity_begin(dir);
    assert_non_null(p);
    assert_false(twin_parity_look(p, dir, false));
    twin_parity_free(p);
    char *words = words_at_end(dir);
    assert_string_equal(words, "ranks 1 and 2 were not seen, so nothing is known of them");
    tw_free(words);
    /* a version that a rank has not loaded yet is no difference; a variable is */
    announce(dir, 1, "env\tNCCL_ALGO=\ntold\tlibrary\n");
    announce(dir, 2, "version\ttorch 2.0\ntold\tlibrary\ntold\tpython\n");
    words = words_at_end(dir);
    assert_string_equal(words, "rank 1 has NCCL_ALGO an empty value, ranks 0 and 2 do not have it");
    tw_free(words);
    announce(dir, 1, "version\ttorch 2.1\ntold\tlibrary\ntold\tpython\n");
    words = words_at_end(dir);
    assert_string_equal(words, "ranks 0 and 2 have torch 2.0, rank 1 has 2.1");
    tw_free(words);
    /* with too little memory it is said that nothing is known, or what is known */
    for (uint64_t n = 0; n < 300; n++) {
        p = twin_parity_begin(dir);
        assert_non_null(p);
        tw_alloc_fail_at(n, n % 2);
        assert_true(twin_parity_look(p, dir, true));
        tw_alloc_fail_at(0, false);
        twin_parity_free(p);
    }
    announce(dir, 1, "version\ttorch 2.0\ntold\tlibrary\ntold\tpython\n");
    assert_null(words_at_end(dir));
    tw_remove_tree(dir, NULL, NULL);
    tw_free(worlds);
}

/* Of a job whose ranks are looked at while memory is short, something may stay unknown. Nothing is
 * lost of ours, which the leak sanitizer sees, and the next look has it all. */
static void test_ranks_without_memory(void **state)
{
    (void)state;
    char dir[] = "/tmp/twin-ranks-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *worlds = tw_path_join(dir, "worlds");
    assert_int_equal(mkdir(worlds, 0700), 0);
    for (int rank = 1; rank >= 0; rank--) {
        char *path = tw_printf("%s/%d", worlds, rank);
        char *text = tw_printf("rank\t%d\nworld\t2\npid\t%d\nhost\tnode\n", rank, 100 + rank);
        assert_int_equal(tw_write_file_atomic(path, text, strlen(text), NULL), 0);
        tw_free(text);
        tw_free(path);
    }
    struct twin_run run = {.dir = dir};
    for (uint64_t n = 0; n < 40; n++) {
        struct tw_collector c = {.run = &run, .root = json_pack("{s:{}}", "launch")};
        tw_alloc_fail_at(n, n % 2);
        tw_pv_ranks(&c);
        tw_alloc_fail_at(0, false);
        tw_pv_ranks(&c);
        json_t *ranks = json_object_get(c.root, "ranks");
        assert_int_equal(json_array_size(ranks), 2);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(json_integer_value(json_object_get(json_array_get(ranks, i), "rank")),
                             i);
        json_decref(c.root);
    }
    tw_free(worlds);
    tw_remove_tree(dir, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets_are_found),
        cmocka_unit_test(test_every_shape_of_the_table),
        cmocka_unit_test(test_secrets_of_addresses_and_commands),
        cmocka_unit_test(test_random_texts_are_found_and_names_are_not),
        cmocka_unit_test(test_other_words_are_kept),
        cmocka_unit_test(test_across_arguments),
        cmocka_unit_test(test_a_mask_fits_its_room),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_variables),
        cmocka_unit_test(test_the_keyed_replacement),
        cmocka_unit_test(test_what_differs_is_ranked),
        cmocka_unit_test(test_what_is_not_known_makes_no_difference),
        cmocka_unit_test(test_a_run_without_its_end),
        cmocka_unit_test(test_a_machine_without_a_gpu_is_another_one),
        cmocka_unit_test(test_of_other_types),
        cmocka_unit_test(test_libraries_by_package),
        cmocka_unit_test(test_parity_leaves_out_who_started_the_ranks),
        cmocka_unit_test(test_ranks_are_grouped),
        cmocka_unit_test(test_ranks_as_they_begin),
        cmocka_unit_test(test_ranks_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
