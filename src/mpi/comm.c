/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator of the program carries for us: a duplicate for our own messages, so that they
 * never meet the program's, with rank, size, and the type and operation of the agreement. Made at
 * the first reduction on the communicator, kept as an attribute, freed by MPI with it. */
#include <pthread.h>
#include <stdlib.h>
#include "base.h"
#include "inside.h"

/* Sets err to TWIN_EIO with MPI's own text for rc; `what`: the call that failed. Returns the code.
 */
int tw_mpi_failed(struct twin_error *err, int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(rc, text, &length);
    return twin_error_set(err, TWIN_EIO, "all-reduce: %s: %s", what, text);
}

/* The attribute's key, made once in a process. */
static int key = MPI_KEYVAL_INVALID;
static pthread_mutex_t key_lock = PTHREAD_MUTEX_INITIALIZER;

/* MPI calls this when the communicator is freed. */
static int free_state(MPI_Comm comm, int keyval, void *value, void *extra)
{
    struct tw_comm *c = value;
    (void)comm, (void)keyval, (void)extra;
    MPI_Op_free(&c->agree);
    MPI_Type_free(&c->header);
    MPI_Comm_free(&c->comm);
    free(c);
    return MPI_SUCCESS;
}

/* Collective: all ranks of comm are in their first reduction on it. 0 with *out, which the
 * attribute owns; else an error, also when another rank has no memory. */
static int make_state(MPI_Comm comm, struct tw_comm **out, struct twin_error *err)
{
    struct tw_comm *c = tw_calloc(1, sizeof *c);
    int good = c != NULL, all = 0, rc;
    /* A rank without memory must not leave the others in MPI_Comm_dup. */
    if ((rc = MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, comm)) != MPI_SUCCESS || !all) {
        free(c);
        if (rc)
            return tw_mpi_failed(err, rc, "MPI_Allreduce");
        return tw_no_memory(err, "for an all-reduce, on %s", good ? "another rank" : "this rank");
    }
    c->tail = &c->head;
    if ((rc = MPI_Comm_dup(comm, &c->comm)) != MPI_SUCCESS) {
        free(c);
        return tw_mpi_failed(err, rc, "MPI_Comm_dup");
    }
    MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(c->comm, &c->rank);
    MPI_Comm_size(c->comm, &c->ranks);
    if ((rc = MPI_Type_contiguous((int)sizeof(struct tw_header), MPI_BYTE, &c->header)) ==
            MPI_SUCCESS &&
        (rc = MPI_Type_commit(&c->header)) == MPI_SUCCESS &&
        (rc = MPI_Op_create(tw_agree_merge, 1, &c->agree)) == MPI_SUCCESS)
        rc = MPI_Comm_set_attr(comm, key, c);
    if (rc != MPI_SUCCESS)
        return tw_mpi_failed(err, rc, "MPI_Comm_set_attr");
    *out = c;
    return 0;
}

/* Gives the state of comm in *out; it belongs to comm. TWIN_EINVAL for what is no communicator of
 * one group, or while MPI is not up. */
int tw_comm_of(MPI_Comm comm, struct tw_comm **out, struct twin_error *err)
{
    int up = 0, down = 0, inter = 0, found = 0, rc = MPI_SUCCESS;
    MPI_Initialized(&up);
    MPI_Finalized(&down);
    if (!up || down)
        return twin_error_set(err, TWIN_EINVAL, "all-reduce: MPI is %s",
                              down ? "finalized already" : "not initialized; call MPI_Init first");
    if (comm == MPI_COMM_NULL)
        return twin_error_set(err, TWIN_EINVAL, "all-reduce: the communicator is MPI_COMM_NULL");
    /* threads with communicators of their own may come here together */
    pthread_mutex_lock(&key_lock);
    if (key == MPI_KEYVAL_INVALID)
        rc = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_state, &key, NULL);
    pthread_mutex_unlock(&key_lock);
    if (rc != MPI_SUCCESS)
        return tw_mpi_failed(err, rc, "MPI_Comm_create_keyval");
    MPI_Comm_test_inter(comm, &inter);
    if (inter)
        return twin_error_set(
            err, TWIN_EINVAL,
            "all-reduce: an inter-communicator; merge its groups with MPI_Intercomm_merge");
    if ((rc = MPI_Comm_get_attr(comm, key, out, &found)) != MPI_SUCCESS)
        return tw_mpi_failed(err, rc, "MPI_Comm_get_attr");
    return found ? 0 : make_state(comm, out, err);
}
