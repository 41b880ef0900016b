/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of which nothing is recorded. Some move contents that nobody sees, which is noted; some
 * wait for other ranks, so that receives that a replay holds take what comes meanwhile (both do no
 * harm where it is not needed). What the library calls of itself inside of them is not recorded.
 * tests/agents/test_mpi_known.py holds the functions of both libraries against what stands here.
 *
 * All arguments are passed on as they came, each in one word: numbers, addresses and handles.
 */
#include "inside.h"

#define A_1 (a)
#define P_1 intptr_t a
#define A_2 (a, b)
#define P_2 P_1, intptr_t b
#define A_3 (a, b, c)
#define P_3 P_2, intptr_t c
#define A_4 (a, b, c, d)
#define P_4 P_3, intptr_t d
#define A_5 (a, b, c, d, e)
#define P_5 P_4, intptr_t e
#define A_6 (a, b, c, d, e, f)
#define P_6 P_5, intptr_t f
#define A_7 (a, b, c, d, e, f, g)
#define P_7 P_6, intptr_t g
#define A_8 (a, b, c, d, e, f, g, h)
#define P_8 P_7, intptr_t h
#define A_9 (a, b, c, d, e, f, g, h, i)
#define P_9 P_8, intptr_t i
#define A_10 (a, b, c, d, e, f, g, h, i, j)
#define P_10 P_9, intptr_t j
#define A_11 (a, b, c, d, e, f, g, h, i, j, k)
#define P_11 P_10, intptr_t k
#define A_12 (a, b, c, d, e, f, g, h, i, j, k, l)
#define P_12 P_11, intptr_t l
#define A_13 (a, b, c, d, e, f, g, h, i, j, k, l, m)
#define P_13 P_12, intptr_t m

/* name, arguments, what is not seen */
#define UNSEEN_OF(kind, name, n, why)            \
    TW_WATCH_AS(kind, name, A_##n, P_##n)        \
    {                                            \
        const bool seen = tw_mpi_enter();        \
        if (seen)                                \
            tw_mpi_unseen(#kind "_" #name, why); \
        tw_mpi_replay_pause();                   \
        int rc = real A_##n;                     \
        tw_mpi_replay_resume(#kind "_" #name);   \
        if (seen)                                \
            tw_mpi_leave();                      \
        return rc;                               \
    }
#define UNSEEN(name, n, why) UNSEEN_OF(MPI, name, n, why)
/* The same of a call that gives a request at once. */
#define UNSEEN_LATER(name, n, why)            \
    TW_WATCH(name, A_##n, P_##n)              \
    {                                         \
        const bool seen = tw_mpi_enter();     \
        if (seen)                             \
            tw_mpi_unseen("MPI_" #name, why); \
        int rc = real A_##n;                  \
        if (seen)                             \
            tw_mpi_leave();                   \
        return rc;                            \
    }

#define ONE_SIDED "what one-sided calls move is not seen"
UNSEEN(Put, 8, ONE_SIDED)
UNSEEN(Get, 8, ONE_SIDED)
UNSEEN(Accumulate, 9, ONE_SIDED)
UNSEEN(Get_accumulate, 12, ONE_SIDED)
UNSEEN(Fetch_and_op, 7, ONE_SIDED)
UNSEEN(Compare_and_swap, 7, ONE_SIDED)
UNSEEN(Rput, 9, ONE_SIDED)
UNSEEN(Rget, 9, ONE_SIDED)
UNSEEN(Raccumulate, 10, ONE_SIDED)
UNSEEN(Rget_accumulate, 13, ONE_SIDED)

#define NEIGHBOURS "what neighbourhood collectives move is not seen"
UNSEEN(Neighbor_allgather, 7, NEIGHBOURS)
UNSEEN(Neighbor_allgatherv, 8, NEIGHBOURS)
UNSEEN(Neighbor_alltoall, 7, NEIGHBOURS)
UNSEEN(Neighbor_alltoallv, 9, NEIGHBOURS)
UNSEEN(Neighbor_alltoallw, 9, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_allgather, 8, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_allgatherv, 9, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_alltoall, 8, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_alltoallv, 10, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_alltoallw, 10, NEIGHBOURS)
#define NEIGHBOURS_INIT(name, n)        \
    UNSEEN_OF(MPI, name, n, NEIGHBOURS) \
    UNSEEN_OF(MPIX, name, n, NEIGHBOURS)
NEIGHBOURS_INIT(Neighbor_allgather_init, 9)
NEIGHBOURS_INIT(Neighbor_allgatherv_init, 10)
NEIGHBOURS_INIT(Neighbor_alltoall_init, 9)
NEIGHBOURS_INIT(Neighbor_alltoallv_init, 11)
NEIGHBOURS_INIT(Neighbor_alltoallw_init, 11)

#define PARTS "what messages in parts carry is not seen"
UNSEEN_LATER(Psend_init, 9, PARTS)
UNSEEN_LATER(Precv_init, 9, PARTS)

#define TOGETHER "what it sends and receives is not seen"
UNSEEN_LATER(Isendrecv, 12, TOGETHER)
UNSEEN_LATER(Isendrecv_replace, 10, TOGETHER)

UNSEEN_LATER(Isendrecv_c, 12, TOGETHER)
UNSEEN_LATER(Isendrecv_replace_c, 10, TOGETHER)

/* Those of MPI 4 whose counts are of 64 bits. */
UNSEEN(Put_c, 8, ONE_SIDED)
UNSEEN(Get_c, 8, ONE_SIDED)
UNSEEN(Accumulate_c, 9, ONE_SIDED)
UNSEEN(Get_accumulate_c, 12, ONE_SIDED)
UNSEEN(Rput_c, 9, ONE_SIDED)
UNSEEN(Rget_c, 9, ONE_SIDED)
UNSEEN(Raccumulate_c, 10, ONE_SIDED)
UNSEEN(Rget_accumulate_c, 13, ONE_SIDED)
UNSEEN(Neighbor_allgather_c, 7, NEIGHBOURS)
UNSEEN(Neighbor_allgatherv_c, 8, NEIGHBOURS)
UNSEEN(Neighbor_alltoall_c, 7, NEIGHBOURS)
UNSEEN(Neighbor_alltoallv_c, 9, NEIGHBOURS)
UNSEEN(Neighbor_alltoallw_c, 9, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_allgather_c, 8, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_allgatherv_c, 9, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_alltoall_c, 8, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_alltoallv_c, 10, NEIGHBOURS)
UNSEEN_LATER(Ineighbor_alltoallw_c, 10, NEIGHBOURS)
UNSEEN(Neighbor_allgather_init_c, 9, NEIGHBOURS)
UNSEEN(Neighbor_allgatherv_init_c, 10, NEIGHBOURS)
UNSEEN(Neighbor_alltoall_init_c, 9, NEIGHBOURS)
UNSEEN(Neighbor_alltoallv_init_c, 11, NEIGHBOURS)
UNSEEN(Neighbor_alltoallw_init_c, 11, NEIGHBOURS)

/* ---- what waits for others */

#define PAUSES_OF(kind, name, n)               \
    TW_WATCH_AS(kind, name, A_##n, P_##n)      \
    {                                          \
        const bool seen = tw_mpi_enter();      \
        tw_mpi_replay_pause();                 \
        int rc = real A_##n;                   \
        tw_mpi_replay_resume(#kind "_" #name); \
        if (seen)                              \
            tw_mpi_leave();                    \
        return rc;                             \
    }
#define PAUSES(name, n) PAUSES_OF(MPI, name, n)

/* windows: making, freeing, and what orders one-sided calls */
PAUSES(Win_create, 6)
PAUSES(Win_create_c, 6)
PAUSES(Win_allocate, 6)
PAUSES(Win_allocate_c, 6)
PAUSES(Win_allocate_shared, 6)
PAUSES(Win_allocate_shared_c, 6)
PAUSES(Win_create_dynamic, 3)
PAUSES(Win_set_info, 2)
PAUSES(Win_fence, 2)
PAUSES(Win_start, 3)
PAUSES(Win_post, 3)
PAUSES(Win_complete, 1)
PAUSES(Win_wait, 1)
PAUSES(Win_lock, 4)
PAUSES(Win_unlock, 2)
PAUSES(Win_lock_all, 2)
PAUSES(Win_unlock_all, 1)
PAUSES(Win_flush, 2)
PAUSES(Win_flush_all, 1)
PAUSES(Win_flush_local, 2)
PAUSES(Win_flush_local_all, 1)
PAUSES(Win_free, 1)

/* files */
PAUSES(File_open, 5)
PAUSES(File_close, 1)
PAUSES(File_sync, 1)
PAUSES(File_set_size, 2)
PAUSES(File_preallocate, 2)
PAUSES(File_set_view, 6)
PAUSES(File_set_atomicity, 2)
PAUSES(File_set_info, 2)
PAUSES(File_seek_shared, 3)
PAUSES(File_read_at_all, 6)
PAUSES(File_write_at_all, 6)
PAUSES(File_iread_at_all, 6)
PAUSES(File_iwrite_at_all, 6)
PAUSES(File_read_at_all_begin, 5)
PAUSES(File_write_at_all_begin, 5)
PAUSES(File_read_all, 5)
PAUSES(File_write_all, 5)
PAUSES(File_read_ordered, 5)
PAUSES(File_write_ordered, 5)
PAUSES(File_read_shared, 5)
PAUSES(File_write_shared, 5)
PAUSES(File_iread_all, 5)
PAUSES(File_iwrite_all, 5)
PAUSES(File_read_all_begin, 4)
PAUSES(File_write_all_begin, 4)
PAUSES(File_read_ordered_begin, 4)
PAUSES(File_write_ordered_begin, 4)
PAUSES(File_read_at_all_end, 3)
PAUSES(File_write_at_all_end, 3)
PAUSES(File_read_all_end, 3)
PAUSES(File_write_all_end, 3)
PAUSES(File_read_ordered_end, 3)
PAUSES(File_write_ordered_end, 3)
PAUSES(File_read_at_all_c, 6)
PAUSES(File_write_at_all_c, 6)
PAUSES(File_iread_at_all_c, 6)
PAUSES(File_iwrite_at_all_c, 6)
PAUSES(File_read_at_all_begin_c, 5)
PAUSES(File_write_at_all_begin_c, 5)
PAUSES(File_read_all_c, 5)
PAUSES(File_write_all_c, 5)
PAUSES(File_read_ordered_c, 5)
PAUSES(File_write_ordered_c, 5)
PAUSES(File_read_shared_c, 5)
PAUSES(File_write_shared_c, 5)
PAUSES(File_iread_all_c, 5)
PAUSES(File_iwrite_all_c, 5)
PAUSES(File_read_all_begin_c, 4)
PAUSES(File_write_all_begin_c, 4)
PAUSES(File_read_ordered_begin_c, 4)
PAUSES(File_write_ordered_begin_c, 4)

/* other programs, names, sessions; a buffer from which messages may still have to be sent */
PAUSES(Comm_spawn, 8)
PAUSES(Comm_spawn_multiple, 9)
PAUSES(Comm_accept, 5)
PAUSES(Comm_connect, 5)
PAUSES(Comm_join, 2)
PAUSES(Comm_set_info, 2)
PAUSES(Lookup_name, 3)
PAUSES(Publish_name, 3)
PAUSES(Unpublish_name, 3)
PAUSES(Comm_create_from_group, 5)
PAUSES(Intercomm_create_from_groups, 8)
PAUSES(Session_init, 3)
PAUSES(Session_finalize, 1)
PAUSES(Buffer_detach, 2)
PAUSES(Buffer_detach_c, 2)

/* after failures of processes */
PAUSES_OF(MPIX, Comm_agree, 2)
PAUSES_OF(MPIX, Comm_shrink, 2)
