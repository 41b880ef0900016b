/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callbacks of sys.monitoring (agents/python/frames.c), with a Python that is played, so that
 * they run under the sanitizers. With a real one: tests/agents/test_script_calls.py.
 */
#include "agents/python/frames.h"
#include "played_python.h"

#include <pthread.h>

/* ---------------------------------------------------------------- the Python half, and a job */

static PyObject *nothing, *disable, *none, *functions[5];
static PyObject *event[TW_FRAMES_CALLABLES];
static int arguments; /* of the functions that are learned */
static bool is_own = true, begins_raises;
static int begun, ended_seen, unset_seen;
static long long last_number, asked_for;
static size_t taken_with;
static PyObject *last_result;

static PyObject *learn(PyObject **given, size_t n)
{
    (void)given;
    assert_int_equal(n, 1);
    if (!is_own) {
        Py_IncRef(nothing);
        return nothing;
    }
    PyObject *entry = made(ENTRY), *names = entry ? PyTuple_New(2) : NULL;
    for (ssize_t i = 0; names && i < 2; i++) {
        PyObject *name = PyLong_FromUnsignedLongLong((unsigned long long)i);
        if (name) {
            PyTuple_SetItem(names, i, name);
        } else {
            Py_DecRef(names);
            names = NULL;
        }
    }
    if (entry && !names) {
        Py_DecRef(entry);
        return NULL;
    }
    if (entry) {
        entry->item[0] = names;
        entry->count = 1;
        entry->number = arguments;
    }
    return entry;
}

static void see_variables(PyObject *variables)
{
    assert_int_equal(variables->count, 2);
    for (ssize_t i = 0; i < 2; i++)
        unset_seen += variables->item[i] == nothing;
}

static PyObject *begins(PyObject **given, size_t n)
{
    assert_int_equal(n, 3);
    assert_int_equal(given[0]->kind, ENTRY);
    last_number = given[1]->number;
    see_variables(given[2]);
    if (begins_raises) {
        error_is_set = true;
        return NULL;
    }
    begun++;
    return made(SIMPLE);
}

static PyObject *ends(PyObject **given, size_t n)
{
    assert_int_equal(n, 5);
    see_variables(given[2]);
    last_result = given[3];
    ended_seen++;
    Py_IncRef(none);
    return none;
}

static PyObject *gives_way(PyObject **given, size_t n)
{
    assert_int_equal(n, 1);
    assert_int_equal(tracing, 1); /* no tool sees it */
    asked_for = given[0]->number;
    Py_IncRef(none);
    return none;
}

static PyObject *pythons_use_tool_id(PyObject **given, size_t n)
{
    assert_int_equal(given[0]->number, asked_for);
    assert_int_equal(tracing, 0);
    taken_with = n;
    Py_IncRef(none);
    return none;
}

static PyObject *function_of(PyObject *(*f)(PyObject **, size_t))
{
    PyObject *o = made(FUNCTION);
    o->function = f;
    return o;
}

/* The callbacks are asked for once in a process; what they hold of Python is held for good. */
static int start(void **state)
{
    (void)state;
    nothing = made(SIMPLE), disable = made(SIMPLE), none = made(SIMPLE);
    functions[0] = function_of(learn);
    functions[1] = function_of(begins);
    functions[2] = function_of(ends);
    functions[3] = function_of(gives_way);
    functions[4] = function_of(pythons_use_tool_id);
    PyObject *const all[] = {functions[0], functions[1], functions[2], nothing,      disable,
                             none,         functions[3], functions[4], &types[FRAME]};
    PyObject *given = PyTuple_New(9);
    for (ssize_t i = 0; i < 9; i++) {
        Py_IncRef(all[i]);
        PyTuple_SetItem(given, i, all[i]);
    }
    PyObject *callbacks = tw_agent_frames_start(given);
    Py_DecRef(given);
    assert_int_equal(callbacks->count, TW_FRAMES_CALLABLES);
    for (ssize_t i = 0; i < TW_FRAMES_CALLABLES; i++) {
        event[i] = callbacks->item[i];
        Py_IncRef(event[i]);
    }
    Py_DecRef(callbacks);
    return 0;
}

static long long alive_before;

static int begin_test(void **state)
{
    (void)state;
    begun = ended_seen = unset_seen = arguments = 0;
    is_own = true;
    begins_raises = error_is_set = false;
    recursion_limit = 1000;
    refuse_at = -1;
    alive_before = alive;
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    assert_null(running);
    return alive == alive_before ? 0 : -1; /* each reference that was taken was given back */
}

static PyObject *code_of(long long flags)
{
    PyObject *code = made(CODE);
    code->number = flags;
    return code;
}

static void enter(void)
{
    PyObject *frame = made(FRAME);
    frame->back = running; /* takes over the reference */
    frame->count = 2;
    frame->item[0] = made(SIMPLE); /* the second variable is not set */
    running = frame;
}

static void leave(void)
{
    PyObject *frame = running;
    running = frame->back;
    if (running)
        Py_IncRef(running);
    Py_DecRef(frame);
}

/* What the callback answers; it is not held any longer. NULL: it raises. */
static PyObject *tell(int which, PyObject *code, PyObject *more)
{
    PyObject *const args[] = {code, none, more ? more : none};
    PyObject *answer = event[which]->method(NULL, args, which == TW_FRAMES_STARTED ? 2 : 3);
    if (answer) {
        assert_false(error_is_set);
        Py_DecRef(answer);
    } else {
        assert_true(error_is_set);
    }
    return answer;
}

static uint64_t counted(PyObject *code, int which)
{
    return tw_agent_frames_count(code, which);
}

static void call(PyObject *code)
{
    enter();
    assert_ptr_equal(tell(TW_FRAMES_STARTED, code, NULL), none);
    tell(TW_FRAMES_RETURNED, code, NULL);
    leave();
}

/* ---------------------------------------------------------------- tests */

static void test_a_call_is_shown_at_both_ends(void **state)
{
    (void)state;
    PyObject *code = code_of(0);
    call(code);
    assert_int_equal(begun, 1);
    assert_int_equal(ended_seen, 1);
    assert_int_equal(unset_seen, 2); /* the unset variable, at both ends */
    assert_int_equal(last_number, 1);
    assert_int_equal(counted(code, TW_FRAMES_CALLS), 1);
    assert_int_equal(counted(code, -1), 0);
    assert_int_equal(counted(code, TW_FRAMES_COUNTS), 0);
    Py_DecRef(code);
}

static void test_a_function_of_others_is_switched_off(void **state)
{
    (void)state;
    PyObject *code = code_of(0);
    is_own = false;
    enter();
    assert_ptr_equal(tell(TW_FRAMES_STARTED, code, NULL), disable);
    assert_ptr_equal(tell(TW_FRAMES_RETURNED, code, NULL), disable);
    assert_ptr_equal(tell(TW_FRAMES_UNWOUND, code, nothing), none); /* cannot be switched off */
    leave();
    assert_int_equal(begun + ended_seen, 0);
    Py_DecRef(code);
}

static void test_which_calls_are_due(void **state)
{
    (void)state;
    PyObject *code = code_of(0);
    for (int i = 0; i < 4096; i++)
        call(code);
    /* 1024, then each 64th up to 2047, each 128th of 2048 to 4095, and 4096 */
    assert_int_equal(begun, 1024 + 15 + 16 + 1);
    assert_int_equal(ended_seen, begun);
    for (int i = 4096; i < 1 << 14; i++)
        call(code);
    enter();
    assert_ptr_equal(tell(TW_FRAMES_STARTED, code, NULL), disable);
    assert_ptr_equal(tell(TW_FRAMES_RETURNED, code, NULL), disable);
    leave();
    assert_int_equal(counted(code, TW_FRAMES_FULL), 1);
    assert_int_equal(counted(code, TW_FRAMES_CALLS), 1 << 14);
    Py_DecRef(code);
}

static void test_calls_in_each_other(void **state)
{
    (void)state;
    enum { DEEP = 200, OPEN = 64 };
    PyObject *code = code_of(0);
    for (int i = 0; i < DEEP; i++) {
        enter();
        tell(TW_FRAMES_STARTED, code, NULL);
    }
    assert_int_equal(begun, OPEN);
    assert_int_equal(counted(code, TW_FRAMES_DEEP), DEEP - OPEN);
    for (int i = 0; i < DEEP; i++) {
        tell(i % 2 ? TW_FRAMES_UNWOUND : TW_FRAMES_RETURNED, code, nothing);
        leave();
    }
    assert_int_equal(ended_seen, OPEN);
    call(code); /* and the places are free again */
    assert_int_equal(begun, OPEN + 1);
    Py_DecRef(code);
}

static void test_a_stack_that_is_deep_or_short(void **state)
{
    (void)state;
    PyObject *code = code_of(0);
    for (int i = 0; i < 128; i++)
        enter();
    call(code);
    assert_int_equal(begun, 0);
    leave();
    call(code);
    assert_int_equal(begun, 1);
    recursion_limit = 400;
    call(code);
    assert_int_equal(begun, 1);
    assert_int_equal(counted(code, TW_FRAMES_DEEP), 2);
    while (running)
        leave();
    Py_DecRef(code);
}

static void test_a_generator_is_shown_where_it_gives(void **state)
{
    (void)state;
    PyObject *code = code_of(0x20), *value = made(SIMPLE);
    enter();
    assert_ptr_equal(tell(TW_FRAMES_STARTED, code, NULL), none);
    assert_int_equal(counted(code, TW_FRAMES_CALLS), 0);
    tell(TW_FRAMES_YIELDED, code, value);
    assert_ptr_equal(last_result, value);
    tell(TW_FRAMES_UNWOUND, code, PyExc_GeneratorExit); /* nobody wanted the rest */
    assert_int_equal(ended_seen, 1);
    tell(TW_FRAMES_UNWOUND, code, value);
    assert_int_equal(ended_seen, 2);
    leave();
    assert_int_equal(begun, 0);
    Py_DecRef(value);
    Py_DecRef(code);
}

/* A plain function is not freed as a generator is: whatever ends it is its end. */
static void test_a_function_that_raises_what_ends_generators(void **state)
{
    (void)state;
    PyObject *code = code_of(0);
    for (int i = 1; i <= 200; i++) {
        enter();
        tell(TW_FRAMES_STARTED, code, NULL);
        tell(TW_FRAMES_UNWOUND, code, PyExc_GeneratorExit);
        leave();
        assert_int_equal(begun, i);
        assert_int_equal(ended_seen, i);
    }
    Py_DecRef(code);
}

static void test_what_a_signal_handler_raises_goes_on(void **state)
{
    (void)state;
    PyObject *code = code_of(0);
    begins_raises = true;
    enter();
    assert_null(tell(TW_FRAMES_STARTED, code, NULL));
    error_is_set = false;
    leave();
    begins_raises = false;
    call(code);
    assert_int_equal(begun, 1);
    assert_int_equal(ended_seen, 1);
    Py_DecRef(code);
}

static void *call_elsewhere(void *code)
{
    const PyObject *answer = tell(TW_FRAMES_STARTED, code, NULL);
    tell(TW_FRAMES_RETURNED, code, NULL);
    return answer == none ? code : NULL;
}

static void test_another_thread_is_counted_only(void **state)
{
    (void)state;
    PyObject *code = code_of(0);
    pthread_t thread;
    void *done = NULL;
    assert_int_equal(pthread_create(&thread, NULL, call_elsewhere, code), 0);
    pthread_join(thread, &done);
    assert_ptr_equal(done, code);
    assert_int_equal(counted(code, TW_FRAMES_ELSEWHERE), 1);
    assert_int_equal(counted(code, TW_FRAMES_CALLS), 0);
    assert_int_equal(begun + ended_seen, 0);
    Py_DecRef(code);
}

/* One refused object after the other: the job gets no error of ours, nothing is lost or kept, and
 * that the function is not watched any longer is told. (What begins() raises is a signal handler's:
 * its own mistakes it keeps to itself.) */
static void test_no_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        PyObject *code = code_of(0);
        call(code); /* it is known */
        begun = ended_seen = 0;
        enter();
        refuse_at = i < 5 ? i : -1; /* at the beginning: number, variables, begins()'s token */
        const PyObject *answer = tell(TW_FRAMES_STARTED, code, NULL);
        error_is_set = false;
        refuse_at = i == 5 ? 0 : -1; /* at the end: variables */
        assert_non_null(tell(TW_FRAMES_RETURNED, code, NULL));
        refuse_at = -1;
        leave();
        assert_int_equal(answer == none, i != 2);
        assert_int_equal(begun, i >= 2);
        assert_int_equal(ended_seen, i == 3 || i == 4);
        assert_int_equal(counted(code, TW_FRAMES_FULL), i < 2 || i == 5);
        if (i == 5) {
            enter();
            assert_ptr_equal(tell(TW_FRAMES_STARTED, code, NULL), disable);
            leave();
        }
        Py_DecRef(code);
    }
}

static void test_no_memory_where_a_code_is_met_first(void **state)
{
    (void)state;
    int not_watched = 0;
    for (int i = 0; i < 11; i++) {
        PyObject *code = code_of(0);
        enter();
        refuse_at = i;
        const PyObject *answer = tell(TW_FRAMES_STARTED, code, NULL);
        error_is_set = false; /* learn() or begins() got no object */
        const bool refused = refuse_at == -1;
        refuse_at = -1;
        if (answer == disable) /* it is not watched: that is told */
            assert_int_equal(counted(code, TW_FRAMES_FULL), 1);
        if (answer)
            tell(TW_FRAMES_RETURNED, code, NULL);
        leave();
        Py_DecRef(code);
        not_watched += answer == disable;
        assert_int_equal(refused, i < 10);
    }
    assert_int_equal(not_watched, 3); /* no flags, arguments; no place in the code */
}

/* Where a signal comes must not decide what is looked at: neither which calls, nor their numbers.
 */
static void test_calls_in_a_handler_are_counted_apart(void **state)
{
    (void)state;
    PyObject *plain = code_of(0), *gives = code_of(0x20), *value = made(SIMPLE);
    arguments = 1;
    PyObject *catches = code_of(0x04);
    for (int in_a_tuple = 0; in_a_tuple < 2; in_a_tuple++) {
        PyObject *code = in_a_tuple ? catches : plain;
        call(code); /* with an argument that is no frame */
        enter();
        PyObject *tuple = in_a_tuple ? PyTuple_New(1) : NULL;
        Py_DecRef(running->item[0]);
        running->item[0] = tuple ? tuple : made(FRAME);
        if (tuple)
            PyTuple_SetItem(tuple, 0, made(FRAME));
        const int before = begun;
        assert_ptr_equal(tell(TW_FRAMES_STARTED, code, NULL), none);
        call(plain);
        call(catches);
        enter();
        tell(TW_FRAMES_STARTED, gives, NULL);
        tell(TW_FRAMES_YIELDED, gives, value);
        leave();
        tell(in_a_tuple ? TW_FRAMES_UNWOUND : TW_FRAMES_RETURNED, code, value);
        leave();
        assert_int_equal(begun, before);
        assert_int_equal(counted(code, TW_FRAMES_HANDLER), 1);
        assert_int_equal(counted(code, TW_FRAMES_CALLS), 1);
    }
    assert_int_equal(ended_seen, begun);
    assert_int_equal(counted(plain, TW_FRAMES_APART), 2);
    assert_int_equal(counted(catches, TW_FRAMES_APART), 2);
    assert_int_equal(counted(gives, TW_FRAMES_APART), 2);
    assert_int_equal(counted(gives, TW_FRAMES_CALLS), 0);
    call(plain); /* and then all is as before */
    assert_int_equal(last_number, 2);
    Py_DecRef(plain);
    Py_DecRef(catches);
    Py_DecRef(gives);
    Py_DecRef(value);
}

static void test_the_job_takes_a_place_among_the_tools(void **state)
{
    (void)state;
    PyObject *id = PyLong_FromUnsignedLongLong(4);
    PyObject *const args[] = {id, none};
    PyObject *answer = event[TW_FRAMES_USE_TOOL]->method(NULL, args, 2);
    assert_ptr_equal(answer, none);
    Py_DecRef(answer);
    assert_int_equal(asked_for, 4); /* we are asked first, then Python does it */
    assert_int_equal(taken_with, 2);
    Py_DecRef(id);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(test_a_call_is_shown_at_both_ends),
        TEST(test_a_function_of_others_is_switched_off),
        TEST(test_which_calls_are_due),
        TEST(test_calls_in_each_other),
        TEST(test_a_stack_that_is_deep_or_short),
        TEST(test_a_generator_is_shown_where_it_gives),
        TEST(test_a_function_that_raises_what_ends_generators),
        TEST(test_what_a_signal_handler_raises_goes_on),
        TEST(test_another_thread_is_counted_only),
        TEST(test_calls_in_a_handler_are_counted_apart),
        TEST(test_the_job_takes_a_place_among_the_tools),
        TEST(test_no_memory),
        TEST(test_no_memory_where_a_code_is_met_first),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
