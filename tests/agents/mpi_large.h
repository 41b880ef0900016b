/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MPI_LARGE_H
#define MPI_LARGE_H
/*
 * Functions of MPI 4 as a program has them that is built for several MPIs, as mpi4py's wheel is:
 * weak references, found where the library has them. To be included behind an mpi.h that is older.
 */
#define WEAK(name, ...) extern int name(__VA_ARGS__) __attribute__((weak));
#define LARGE_SEND(name) \
    WEAK(MPI_##name##_c, const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm)
#define LARGE_SENDS(name) \
    WEAK(MPI_##name##_c, const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)
LARGE_SEND(Send)
LARGE_SEND(Ssend)
LARGE_SEND(Bsend)
LARGE_SEND(Rsend)
LARGE_SENDS(Isend)
LARGE_SENDS(Issend)
LARGE_SENDS(Ibsend)
LARGE_SENDS(Irsend)
LARGE_SENDS(Send_init)
LARGE_SENDS(Ssend_init)
LARGE_SENDS(Bsend_init)
LARGE_SENDS(Rsend_init)
WEAK(MPI_Recv_c, void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Status *)
WEAK(MPI_Irecv_c, void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)
WEAK(MPI_Recv_init_c, void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)
WEAK(MPI_Mrecv_c, void *, MPI_Count, MPI_Datatype, MPI_Message *, MPI_Status *)
WEAK(MPI_Imrecv_c, void *, MPI_Count, MPI_Datatype, MPI_Message *, MPI_Request *)
WEAK(MPI_Sendrecv_c, const void *, MPI_Count, MPI_Datatype, int, int, void *, MPI_Count,
     MPI_Datatype, int, int, MPI_Comm, MPI_Status *)
WEAK(MPI_Sendrecv_replace_c, void *, MPI_Count, MPI_Datatype, int, int, int, int, MPI_Comm,
     MPI_Status *)

#define LARGE_COLLECTIVE(name, later, ...)            \
    WEAK(MPI_##name##_c, __VA_ARGS__)                 \
    WEAK(MPI_##later##_c, __VA_ARGS__, MPI_Request *) \
    WEAK(MPI_##name##_init_c, __VA_ARGS__, MPI_Info, MPI_Request *)
#define LARGE_REDUCES(name, later) \
    LARGE_COLLECTIVE(name, later, const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm)
#define LARGE_EACH const void *, MPI_Count, MPI_Datatype, void *, MPI_Count, MPI_Datatype
#define LARGE_PARTS const MPI_Count *, const MPI_Aint *
LARGE_COLLECTIVE(Bcast, Ibcast, void *, MPI_Count, MPI_Datatype, int, MPI_Comm)
LARGE_REDUCES(Allreduce, Iallreduce)
LARGE_REDUCES(Scan, Iscan)
LARGE_REDUCES(Exscan, Iexscan)
LARGE_REDUCES(Reduce_scatter_block, Ireduce_scatter_block)
LARGE_COLLECTIVE(Reduce, Ireduce, const void *, void *, MPI_Count, MPI_Datatype, MPI_Op, int,
                 MPI_Comm)
LARGE_COLLECTIVE(Reduce_scatter, Ireduce_scatter, const void *, void *, const MPI_Count *,
                 MPI_Datatype, MPI_Op, MPI_Comm)
LARGE_COLLECTIVE(Gather, Igather, LARGE_EACH, int, MPI_Comm)
LARGE_COLLECTIVE(Scatter, Iscatter, LARGE_EACH, int, MPI_Comm)
LARGE_COLLECTIVE(Allgather, Iallgather, LARGE_EACH, MPI_Comm)
LARGE_COLLECTIVE(Alltoall, Ialltoall, LARGE_EACH, MPI_Comm)
LARGE_COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, LARGE_EACH, MPI_Comm)
LARGE_COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, LARGE_EACH, MPI_Comm)
LARGE_COLLECTIVE(Gatherv, Igatherv, const void *, MPI_Count, MPI_Datatype, void *, LARGE_PARTS,
                 MPI_Datatype, int, MPI_Comm)
LARGE_COLLECTIVE(Scatterv, Iscatterv, const void *, LARGE_PARTS, MPI_Datatype, void *, MPI_Count,
                 MPI_Datatype, int, MPI_Comm)
LARGE_COLLECTIVE(Allgatherv, Iallgatherv, const void *, MPI_Count, MPI_Datatype, void *,
                 LARGE_PARTS, MPI_Datatype, MPI_Comm)
LARGE_COLLECTIVE(Neighbor_allgatherv, Ineighbor_allgatherv, const void *, MPI_Count, MPI_Datatype,
                 void *, LARGE_PARTS, MPI_Datatype, MPI_Comm)
LARGE_COLLECTIVE(Alltoallv, Ialltoallv, const void *, LARGE_PARTS, MPI_Datatype, void *,
                 LARGE_PARTS, MPI_Datatype, MPI_Comm)
LARGE_COLLECTIVE(Neighbor_alltoallv, Ineighbor_alltoallv, const void *, LARGE_PARTS, MPI_Datatype,
                 void *, LARGE_PARTS, MPI_Datatype, MPI_Comm)
LARGE_COLLECTIVE(Alltoallw, Ialltoallw, const void *, LARGE_PARTS, const MPI_Datatype *, void *,
                 LARGE_PARTS, const MPI_Datatype *, MPI_Comm)
LARGE_COLLECTIVE(Neighbor_alltoallw, Ineighbor_alltoallw, const void *, LARGE_PARTS,
                 const MPI_Datatype *, void *, LARGE_PARTS, const MPI_Datatype *, MPI_Comm)

#define LARGE_PUT void *, MPI_Count, MPI_Datatype, int, MPI_Aint, MPI_Count, MPI_Datatype
WEAK(MPI_Put_c, const LARGE_PUT, MPI_Win)
WEAK(MPI_Rput_c, const LARGE_PUT, MPI_Win, MPI_Request *)
WEAK(MPI_Get_c, LARGE_PUT, MPI_Win)
WEAK(MPI_Rget_c, LARGE_PUT, MPI_Win, MPI_Request *)
WEAK(MPI_Accumulate_c, const LARGE_PUT, MPI_Op, MPI_Win)
WEAK(MPI_Raccumulate_c, const LARGE_PUT, MPI_Op, MPI_Win, MPI_Request *)
WEAK(MPI_Get_accumulate_c, LARGE_EACH, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op, MPI_Win)
WEAK(MPI_Rget_accumulate_c, LARGE_EACH, int, MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op, MPI_Win,
     MPI_Request *)
WEAK(MPI_Win_create_c, void *, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, MPI_Win *)
WEAK(MPI_Win_allocate_c, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void *, MPI_Win *)
WEAK(MPI_Win_allocate_shared_c, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void *, MPI_Win *)
WEAK(MPI_Buffer_detach_c, void *, MPI_Count *)

#define LARGE_FILE(reads, writes, ...)                                   \
    WEAK(MPI_File_##reads##_c, MPI_File, void *, MPI_Count, __VA_ARGS__) \
    WEAK(MPI_File_##writes##_c, MPI_File, const void *, MPI_Count, __VA_ARGS__)
#define LARGE_FILE_AT(reads, writes, ...)                                            \
    WEAK(MPI_File_##reads##_c, MPI_File, MPI_Offset, void *, MPI_Count, __VA_ARGS__) \
    WEAK(MPI_File_##writes##_c, MPI_File, MPI_Offset, const void *, MPI_Count, __VA_ARGS__)
LARGE_FILE_AT(read_at_all, write_at_all, MPI_Datatype, MPI_Status *)
LARGE_FILE_AT(iread_at_all, iwrite_at_all, MPI_Datatype, MPI_Request *)
LARGE_FILE_AT(read_at_all_begin, write_at_all_begin, MPI_Datatype)
LARGE_FILE(read_all, write_all, MPI_Datatype, MPI_Status *)
LARGE_FILE(iread_all, iwrite_all, MPI_Datatype, MPI_Request *)
LARGE_FILE(read_all_begin, write_all_begin, MPI_Datatype)
LARGE_FILE(read_ordered, write_ordered, MPI_Datatype, MPI_Status *)
LARGE_FILE(read_ordered_begin, write_ordered_begin, MPI_Datatype)
LARGE_FILE(read_shared, write_shared, MPI_Datatype, MPI_Status *)
#endif
