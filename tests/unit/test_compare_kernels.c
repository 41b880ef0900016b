/* SPDX-License-Identifier: Apache-2.0 */
/* What two runs launched on GPUs, held against each other: what is named, and what may not be said
 * where records are missing, threads are numbered otherwise, or steps are cut elsewhere. */
#include "internal.h"

#include "compare_test.h"

#include <sys/stat.h>
#include <unistd.h>
#include "src/trace/kernels.h"

enum { RANKS = 2, STEPS = 5, MOST = 8 };

/* What a thread launches in each step: letters, each a kernel; a capital letter has another shape.
 */
struct thread {
    const char *name, *usual;
    const char *other; /* in step `at`; NULL: as usual */
    uint32_t at;
};

/* What one side has. */
struct made {
    float value; /* not 0: another one from step 3 on */
    struct thread thread[4];
    uint32_t steps; /* 0: STEPS */
    const char *role, *stopped, *code;
    bool none, open, torn, lost, unlisted, twice, late; /* late: its steps end one launch later */
    bool mangled, holes, liar; /* liar: its lists are not what the digests say */
};

static uint64_t key_of(char kernel)
{
    return tw_mix64((unsigned char)kernel) | 1;
}

static const char *name_of(char kernel, const struct made *m)
{
    static char name[64];
    const char small = (char)(kernel | 0x20);
    if (m->mangled)
        snprintf(name, sizeof name, "_ZN2at12_GLOBAL__N_16kernelILi%cEEEvv", small);
    else
        snprintf(name, sizeof name, "kernel_%c", small);
    return name;
}

static uint32_t series(struct twin_writer *w, const char *name, const char *scope, const char *op,
                       const char *site)
{
    const struct twin_series s = {.phase = TWIN_PHASE_KERNEL,
                                  .name = twin_writer_string(w, name, strlen(name)),
                                  .scope = twin_writer_string(w, scope, strlen(scope)),
                                  .op = twin_writer_string(w, op, strlen(op)),
                                  .site = twin_writer_string(w, site, strlen(site))};
    return twin_writer_series(w, &s);
}

static void put(struct twin_writer *w, uint32_t id, uint32_t ndim, int64_t shape, uint64_t a,
                uint64_t b)
{
    const struct twin_observation o = {
        .series = id, .layout = twin_writer_layout(w, TWIN_U8, ndim, &shape), .digest = {a, b}};
    assert_int_not_equal(twin_writer_record(w, &o), 0);
}

static void put_sequence(struct twin_writer *w, const struct made *m, const char *thread,
                         const char *kernels, size_t n, uint32_t step)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < n; i++)
        digest = tw_sequence_add(digest, key_of(kernels[i]));
    if (n)
        put(w, series(w, "launches", thread, "", TW_KERNELS_SEQUENCE), 1, (int64_t)n, digest, step);
    for (size_t i = 0; i < n && !m->unlisted; i++)
        if (!m->holes || i != 1)
            put(w,
                series(w, name_of(m->liar ? 'a' : kernels[i], m), "",
                       kernels[i] < 'a' && !m->liar ? "grid 2" : "grid 1", TW_KERNELS_LAUNCH),
                0, 0, digest, i);
}

static void write_kernels(const char *folder, const char *file, const struct made *m)
{
    char path[4096];
    struct twin_writer *w = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    const struct twin_writer_options o = {.path = path,
                                          .rank = 1,
                                          .world = RANKS,
                                          .role = m->role ? m->role : "main",
                                          .ring_bytes = 65536};
    assert_int_equal(twin_writer_open(&o, &w, NULL), 0);
    for (size_t k = 0; k < 4 && m->thread[k].name; k++) {
        const struct thread *t = &m->thread[k];
        char all[STEPS * MOST + 1] = "";
        size_t cut[STEPS + 1] = {0};
        const uint32_t steps = m->steps ? m->steps : STEPS;
        for (uint32_t step = 0; step < steps; step++) {
            const bool other = t->other && step == t->at;
            strcat(all, other ? t->other : t->usual);
            cut[step + 1] = strlen(all);
        }
        for (uint32_t step = 0; step < steps; step++) {
            const size_t from = cut[step] + (m->late && step > 0);
            const size_t to = cut[step + 1] + (m->late && step + 1 < steps);
            put_sequence(w, m, t->name, all + from, to - from, step);
        }
    }
    if (m->code)
        put(w, series(w, "module", "", "", TW_KERNELS_MODULE), 1, (int64_t)strlen(m->code),
            tw_mix64((unsigned char)m->code[0]), 0);
    if (m->lost)
        twin_writer_note(w, TW_KERNELS_LOST, "3");
    if (m->stopped)
        twin_writer_note(w, TW_KERNELS_STOPPED, m->stopped);
    twin_writer_close(w);
}

/* Without the last block, the end; or with a byte of the first one turned over. */
static void cut_off(const char *folder, bool torn)
{
    char path[4096];
    struct stat st;
    snprintf(path, sizeof path, "%s/1.1.twt", folder);
    assert_int_equal(stat(path, &st), 0);
    if (!torn) {
        assert_int_equal(truncate(path, st.st_size - 64), 0);
        return;
    }
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, st.st_size / 2, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, st.st_size / 2, SEEK_SET), 0);
    fputc(byte ^ 1, f);
    assert_int_equal(fclose(f), 0);
}

static struct twin_verdict *verdict_of(const struct made *a, const struct made *b)
{
    const struct made *made[2] = {a, b};
    struct synth *s[2] = {synth_new("kernels-a"), synth_new("kernels-b")};
    for (int i = 0; i < 2; i++) {
        char folder[4000];
        for (uint32_t k = 0; k < RANKS * STEPS; k++) {
            const uint32_t step = k % STEPS;
            static struct twin_writer *w;
            if (step == 0)
                w = synth_process(s[i], (int32_t)(k / STEPS), RANKS, NULL);
            const float x = step >= 3 ? 1 + made[i]->value : 1;
            synth_put(w,
                      (struct synth_record){
                          .phase = TWIN_PHASE_OUTPUT, .kind = TWIN_KIND_VALUE, .name = "x"},
                      &x, 1);
            twin_writer_step_end(w);
        }
        if (made[i]->none)
            continue;
        snprintf(folder, sizeof folder, "%s/kernels", synth_run(s[i])->dir);
        assert_int_equal(mkdir(folder, 0777), 0);
        write_kernels(folder, "1.1.twt", made[i]);
        if (made[i]->twice)
            write_kernels(folder, "1.7.twt", made[i]);
        if (made[i]->open || made[i]->torn)
            cut_off(folder, made[i]->torn);
    }
    struct twin_verdict *v = compare(s[0], s[1], NULL);
    synth_free(s[0]);
    synth_free(s[1]);
    return v;
}

/* The verdict's one note about kernels; "" when there is none. */
static void expect(const struct made *a, const struct made *b, enum twin_verdict_outcome outcome,
                   const char *note)
{
    const char *found = "";
    struct twin_verdict *v = verdict_of(a, b);
    expect_outcome(v, outcome);
    for (size_t i = 0; i < v->note_count; i++)
        if (strstr(v->notes[i], "kernels")) {
            assert_string_equal(found, "");
            found = v->notes[i];
        }
    assert_string_equal(found, note);
    twin_verdict_free(v);
}

#define MAIN "main thread"
#define WHERE "other kernels on a GPU: step 2 of rank 1 (" MAIN ") launched "
#define OF(n, m) "; launches differ in " #n " of the " #m " steps of a thread that were compared"
#define ALONE "; nothing else that was compared differs"
#define SAME(n, m)                                                                              \
    "the same kernels were launched on a GPU in run 1 and run 2, in the same order, " #n " of " \
    "them in the " #m " steps of a thread that were compared"

static const struct made usual = {.thread = {{MAIN, "abc"}}};
static const struct made differs = {.thread = {{MAIN, "abc"}}, .value = 1};

static void test_a_kernel_is_named(void **state)
{
    (void)state;
    const struct made other = {.thread = {{MAIN, "abc", "axc", 2}}};
    const char *text = WHERE
        "3 in run 1 and 3 in run 2: launch 2 is kernel_b (grid 1) in run 1 and "
        "kernel_x (grid 1) in run 2" OF(1, 5);
    char both[1024];
    snprintf(both, sizeof both, "%s%s", text, ALONE);
    expect(&usual, &other, TWIN_SAME, both);
    struct made moved = {.thread = {{MAIN, "abc", "axc", 2}}, .value = 1};
    snprintf(both, sizeof both, "%s; it was seen before the step of the first difference", text);
    expect(&usual, &moved, TWIN_DIFFER, both);
    const struct made shape = {.thread = {{MAIN, "abc", "aBc", 2}}};
    expect(&shape, &usual, TWIN_SAME,
           WHERE "3 in run 1 and 3 in run 2: launch 2 is kernel_b (grid 2) in run 1 and kernel_b "
                 "(grid 1) in run 2" OF(1, 5) ALONE);
    /* the step of the first difference is 3 */
    moved.thread[0].at = 3;
    struct twin_verdict *v = verdict_of(&usual, &moved);
    bool in = false;
    for (size_t i = 0; i < v->note_count; i++)
        in |= strstr(v->notes[i], "; it was seen in the step of the first difference") != NULL;
    assert_true(in);
    twin_verdict_free(v);
    moved.thread[0].at = 4;
    v = verdict_of(&usual, &moved);
    in = false;
    for (size_t i = 0; i < v->note_count; i++)
        in |= strstr(v->notes[i], "; it was seen behind the step of the first difference") != NULL;
    assert_true(in);
    twin_verdict_free(v);
}

static void test_order_and_number(void **state)
{
    (void)state;
    const struct made order = {.thread = {{MAIN, "abc", "acb", 2}}};
    const struct made more = {.thread = {{MAIN, "abc", "abcx", 2}}};
    const struct made none = {.thread = {{MAIN, "abc", "", 2}}};
    const struct made set = {.thread = {{MAIN, "aab"}}},
                      bag = {.thread = {{MAIN, "aab", "abb", 2}}};
    expect(&usual, &order, TWIN_SAME,
           WHERE "the same 3 in another order: launch 2 is kernel_b (grid 1) in run 1 and kernel_c "
                 "(grid 1) in run 2" OF(1, 5) ALONE);
    expect(&usual, &more, TWIN_SAME,
           WHERE "3 in run 1 and 4 in run 2, the same up to launch 4 of run 2, kernel_x (grid "
                 "1)" OF(1, 5) ALONE);
    expect(&more, &usual, TWIN_SAME,
           WHERE "4 in run 1 and 3 in run 2, the same up to launch 4 of run 1, kernel_x (grid "
                 "1)" OF(1, 5) ALONE);
    expect(&usual, &none, TWIN_SAME, WHERE "3 in run 1 and none in run 2" OF(1, 5) ALONE);
    /* the same kinds, another number of each: no order */
    expect(&set, &bag, TWIN_SAME,
           WHERE "3 in run 1 and 3 in run 2: launch 2 is kernel_a (grid 1) in run 1 and kernel_b "
                 "(grid 1) in run 2" OF(1, 5) ALONE);
}

/* Names of C++ are shortened, and told apart where that makes them equal. */
static void test_mangled_names(void **state)
{
    (void)state;
    const struct made one = {.thread = {{MAIN, "abc"}}, .mangled = true};
    const struct made two = {.thread = {{MAIN, "abc", "axc", 2}}, .mangled = true};
    const struct made hurt = {.thread = {{MAIN, "abc", "aBc", 2}}, .mangled = true};
    expect(&one, &two, TWIN_SAME,
           WHERE
           "3 in run 1 and 3 in run 2: launch 2 is at::(anonymous namespace)::kernel<...> "
           "[..._16kernelILibEEEvv] (grid 1) in run 1 and at::(anonymous namespace)::kernel<...> "
           "[..._16kernelILixEEEvv] (grid 1) in run 2" OF(1, 5) ALONE);
    expect(&one, &hurt, TWIN_SAME,
           WHERE "3 in run 1 and 3 in run 2: launch 2 is at::(anonymous namespace)::kernel<...> "
                 "(grid 1) in run 1 and at::(anonymous namespace)::kernel<...> (grid 2) in run "
                 "2" OF(1, 5) ALONE);
}

/* Runs that agree get no note; where values differ, it is said that the kernels do not. */
static void test_nothing_differs(void **state)
{
    (void)state;
    const struct made none = {.none = true};
    const struct made code = {.thread = {{MAIN, "abc"}}, .value = 1, .code = "x"};
    const struct made other = {.thread = {{MAIN, "abc"}}, .code = "yy"};
    expect(&usual, &usual, TWIN_SAME, "");
    expect(&none, &none, TWIN_SAME, "");
    expect(&usual, &differs, TWIN_DIFFER, SAME(15, 5));
    expect(&code, &other, TWIN_DIFFER,
           SAME(15, 5) "; of the machine code that was loaded, 1 module of run 1 and 1 of run 2 "
                       "have no equal in the other");
    expect(&usual, &other, TWIN_SAME, "");
}

/* Threads but the first are numbered by chance; their steps may be cut elsewhere. */
static void test_threads(void **state)
{
    (void)state;
    const struct made two = {.thread = {{MAIN, "abc"}, {"thread 2", "de"}, {"thread 3", "fg"}}};
    const struct made swapped = {.thread = {{MAIN, "abc"}, {"thread 2", "fg"}, {"thread 3", "de"}},
                                 .value = 1};
    expect(&two, &swapped, TWIN_DIFFER, SAME(35, 15));
    /* one is left on both sides, whatever it is called */
    const struct made one = {
        .thread = {{MAIN, "abc"}, {"thread 2", "fg"}, {"thread 3", "de", "dx", 2}}};
    expect(&two, &one, TWIN_SAME,
           "other kernels on a GPU: step 2 of rank 1 (thread 2) launched 2 in run 1 and 2 in run "
           "2: launch 2 is kernel_e (grid 1) in run 1 and kernel_x (grid 1) in run 2" OF(1, 15)
               ALONE);
    /* two are left: which is which is not known */
    const struct made both = {
        .thread = {{MAIN, "abc"}, {"thread 2", "fg", "fx", 2}, {"thread 3", "de", "dx", 2}}};
    expect(&two, &both, TWIN_SAME,
           SAME(15, 5) "; other threads or steps of them have no counterpart");
    const struct made fewer = {.thread = {{MAIN, "abc"}, {"thread 2", "de"}}};
    expect(&two, &fewer, TWIN_SAME,
           SAME(25, 10) "; other threads or steps of them have no counterpart");
    const struct made late = {.thread = {{MAIN, "abc"}, {"thread 2", "de"}, {"thread 3", "fg"}},
                              .late = true};
    expect(&two, &late, TWIN_SAME, "");
}

/* Mutants: nothing may be said of launches that are missing, nor that all is the same. */
static void test_not_all_was_seen(void **state)
{
    (void)state;
    const struct made none = {.none = true}, empty = {.value = 0};
    const struct made lost = {.thread = {{MAIN, "xyz"}}, .lost = true};
    const struct made stopped = {.thread = {{MAIN, "xyz"}}, .stopped = "a profiler"};
    const struct made torn = {.thread = {{MAIN, "xyz"}}, .torn = true};
    const struct made twice = {.thread = {{MAIN, "xyz"}}, .twice = true};
    const struct made role = {.thread = {{MAIN, "xyz"}}, .role = "child 1"};
    const struct made open = {.thread = {{MAIN, "abc"}}, .open = true};
    const char *between = "kernels on a GPU were not compared between run 1 and run 2: ";
    char text[512];
    expect(&usual, &none, TWIN_SAME,
           "kernels on a GPU were not compared: they were recorded in run 1 alone");
    expect(&none, &usual, TWIN_SAME,
           "kernels on a GPU were not compared: they were recorded in run 2 alone");
    expect(&usual, &torn, TWIN_SAME,
           "kernels on a GPU were not compared: the records of run 2 cannot be read");
    snprintf(text, sizeof text, "%slaunches were not recorded, 0 in run 1 and 3 in run 2", between);
    expect(&usual, &lost, TWIN_SAME, text);
    snprintf(text, sizeof text, "%sof run 2 not all was recorded: a profiler", between);
    expect(&usual, &stopped, TWIN_SAME, text);
    snprintf(text, sizeof text, "%sother threads or steps of them have no counterpart", between);
    expect(&usual, &twice, TWIN_SAME, text);
    expect(&usual, &role, TWIN_SAME, text);
    expect(&usual, &empty, TWIN_SAME, text);
    snprintf(text, sizeof text, "%sno launch of either was recorded", between);
    expect(&empty, &empty, TWIN_SAME, text);
    expect(&usual, &open, TWIN_SAME, SAME(15, 5) "; not all was recorded to its end");
}

/* A run that went on: the other's last step may have been cut, and does not count. */
static void test_one_goes_on(void **state)
{
    (void)state;
    const struct made cut = {.thread = {{MAIN, "abc", "a", 2}}, .steps = 3};
    expect(&usual, &cut, TWIN_SAME,
           SAME(6, 2) "; other threads or steps of them have no counterpart");
    const struct made other = {.thread = {{MAIN, "abc", "ab", 1}}, .steps = 3};
    expect(&other, &usual, TWIN_SAME,
           "other kernels on a GPU: step 1 of rank 1 (" MAIN ") launched 2 in run 1 and 3 in run "
           "2, the same up to launch 3 of run 2, kernel_c (grid 1)" OF(
               1, 2) "; other threads or "
                     "steps of them have no counterpart" ALONE);
}

/* Lists with a hole, lists that are not there, and lists that are not what the digests say. */
static void test_lists_that_are_not_whole(void **state)
{
    (void)state;
    const char *text = WHERE "3 in run 1 and 3 in run 2, which are not the same; they are not "
                             "listed" OF(1, 5) ALONE;
    struct made other = {.thread = {{MAIN, "abc", "axc", 2}}, .unlisted = true};
    expect(&usual, &other, TWIN_SAME, text);
    other.unlisted = false;
    other.holes = true;
    expect(&usual, &other, TWIN_SAME, text);
    other.holes = false;
    other.liar = true;
    const struct made liar = {.thread = {{MAIN, "abc"}}, .liar = true};
    expect(&liar, &other, TWIN_SAME, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kernel_is_named), cmocka_unit_test(test_order_and_number),
        cmocka_unit_test(test_mangled_names),     cmocka_unit_test(test_nothing_differs),
        cmocka_unit_test(test_threads),           cmocka_unit_test(test_not_all_was_seen),
        cmocka_unit_test(test_one_goes_on),       cmocka_unit_test(test_lists_that_are_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
