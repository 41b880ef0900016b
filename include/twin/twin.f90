! SPDX-License-Identifier: Apache-2.0
!
! The C interface of twinrun (twin.h) for programs in Fortran. Compile this file with the program:
!
!     gfortran -o fit $(pkg-config --variable=fortran twinrun) fit.f90 $(pkg-config --libs twinrun)
!
!     use twin
!     do step = 1, steps
!         call twin_record("batch:x", x)
!         ...
!         call twin_record("weight:w", w)
!         call twin_step()
!     end do
!
! Source, not a compiled module: a .mod file is read by the compiler alone that wrote it. Needs
! Fortran 2018 (arguments of any rank). What each call does, and what names mean: twin.h and
! docs/c-interface.md. Without twinrun around the program every call is cheap. Since 0.2.
module twin
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: twin_open, twin_on, twin_record, twin_step, twin_scope_push, twin_scope_pop, &
              twin_thread_role, twin_close

    ! enum twin_dtype (fingerprint.h); tests hold the numbers against it
    integer(c_int), parameter, public :: twin_i8 = 2, twin_i32 = 9, twin_f32 = 10, twin_i64 = 12, &
                                         twin_f64 = 13, twin_c64 = 14, twin_c128 = 15

    ! twin_record(name, array, offset): one array, or one number, of its kind and rank. offset: the
    ! index of its first element in the whole array where this is a part of it. Shapes are recorded
    ! as Fortran has them; a section that is not contiguous is copied for the call.
    interface twin_record
        module procedure record_i8, record_i32, record_i64, record_f32, record_f64, record_c64, &
                         record_c128
    end interface

    interface
        integer(c_int) function c_open() bind(c, name="twin_open")
            import :: c_int
        end function
        integer(c_int) function c_on() bind(c, name="twin_on")
            import :: c_int
        end function
        subroutine twin_step() bind(c, name="twin_step")
        end subroutine
        subroutine c_scope_push(name) bind(c, name="twin_scope_push")
            import :: c_char
            character(kind=c_char), intent(in) :: name(*)
        end subroutine
        subroutine twin_scope_pop() bind(c, name="twin_scope_pop")
        end subroutine
        subroutine c_thread_role(role) bind(c, name="twin_thread_role")
            import :: c_char
            character(kind=c_char), intent(in) :: role(*)
        end subroutine
        subroutine twin_close() bind(c, name="twin_close")
        end subroutine
        subroutine c_record(place, func, name, dtype, ndim, shape, strides, data, offset) &
            bind(c, name="twin_record_at")
            import :: c_char, c_int, c_int32_t, c_int64_t, c_ptr
            type(c_ptr), value :: place, func
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: dtype
            integer(c_int32_t), value :: ndim
            integer(c_int64_t), intent(in) :: shape(*), strides(*)
            type(c_ptr), value :: data
            integer(c_int64_t), value :: offset
        end subroutine
    end interface

contains

    logical function twin_open()
        twin_open = c_open() /= 0
    end function

    logical function twin_on()
        twin_on = c_on() /= 0
    end function

    subroutine twin_scope_push(name)
        character(*), intent(in) :: name
        call c_scope_push(trim(name)//c_null_char)
    end subroutine

    subroutine twin_thread_role(role)
        character(*), intent(in) :: role
        call c_thread_role(trim(role)//c_null_char)
    end subroutine

    ! The first index runs fastest: that is what the strides say.
    subroutine record(name, dtype, extents, data, offset)
        character(*), intent(in) :: name
        integer(c_int), intent(in) :: dtype
        integer(c_int64_t), intent(in) :: extents(:)
        type(c_ptr), intent(in) :: data
        integer(c_int64_t), intent(in), optional :: offset
        integer(c_int64_t) :: shape(15), strides(15), first
        integer :: i
        shape = 0
        strides = 1
        shape(1:size(extents)) = extents
        do i = 2, size(extents)
            strides(i) = strides(i - 1)*extents(i - 1)
        end do
        first = 0
        if (present(offset)) first = offset
        ! Fortran does not know its own place in the source
        call c_record(c_null_ptr, c_null_ptr, trim(name)//c_null_char, dtype, &
                      size(extents, kind=c_int32_t), shape, strides, data, first)
    end subroutine

    subroutine record_i8(name, array, offset)
        character(*), intent(in) :: name
        integer(c_int8_t), intent(in), target, contiguous :: array(..)
        integer(c_int64_t), intent(in), optional :: offset
        if (twin_on()) call record(name, twin_i8, shape(array, kind=c_int64_t), c_loc(array), offset)
    end subroutine

    subroutine record_i32(name, array, offset)
        character(*), intent(in) :: name
        integer(c_int32_t), intent(in), target, contiguous :: array(..)
        integer(c_int64_t), intent(in), optional :: offset
        if (twin_on()) call record(name, twin_i32, shape(array, kind=c_int64_t), c_loc(array), offset)
    end subroutine

    subroutine record_i64(name, array, offset)
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in), target, contiguous :: array(..)
        integer(c_int64_t), intent(in), optional :: offset
        if (twin_on()) call record(name, twin_i64, shape(array, kind=c_int64_t), c_loc(array), offset)
    end subroutine

    subroutine record_f32(name, array, offset)
        character(*), intent(in) :: name
        real(c_float), intent(in), target, contiguous :: array(..)
        integer(c_int64_t), intent(in), optional :: offset
        if (twin_on()) call record(name, twin_f32, shape(array, kind=c_int64_t), c_loc(array), offset)
    end subroutine

    subroutine record_f64(name, array, offset)
        character(*), intent(in) :: name
        real(c_double), intent(in), target, contiguous :: array(..)
        integer(c_int64_t), intent(in), optional :: offset
        if (twin_on()) call record(name, twin_f64, shape(array, kind=c_int64_t), c_loc(array), offset)
    end subroutine

    subroutine record_c64(name, array, offset)
        character(*), intent(in) :: name
        complex(c_float_complex), intent(in), target, contiguous :: array(..)
        integer(c_int64_t), intent(in), optional :: offset
        if (twin_on()) call record(name, twin_c64, shape(array, kind=c_int64_t), c_loc(array), offset)
    end subroutine

    subroutine record_c128(name, array, offset)
        character(*), intent(in) :: name
        complex(c_double_complex), intent(in), target, contiguous :: array(..)
        integer(c_int64_t), intent(in), optional :: offset
        if (twin_on()) call record(name, twin_c128, shape(array, kind=c_int64_t), c_loc(array), offset)
    end subroutine

end module
