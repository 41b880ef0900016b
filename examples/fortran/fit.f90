! Fits y = 2x + 1 by gradient descent. Its loss and gradient are added up in as many pieces as the
! first argument says: what an OpenMP reduction does on as many threads.
program fit
    use twin
    implicit none
    integer, parameter :: n = 64, steps = 40
    real :: x(n), y(n), w(2) = 0, gradient(2), loss, rate = 0.1
    integer :: step, i, pieces = 1
    character(8) :: argument

    if (command_argument_count() > 0) then
        call get_command_argument(1, argument)
        read (argument, *) pieces
    end if
    do step = 0, steps - 1
        x = [(real(mod(step + i, n))/n, i=0, n - 1)]
        y = 2*x + 1
        call twin_record("batch:x", x)
        call twin_record("batch:y", y)
        loss = 0
        gradient = 0
        do i = 1, pieces
            call add_piece(n*(i - 1)/pieces + 1, n*i/pieces)
        end do
        call twin_record("loss:loss", loss)
        call twin_record("gradient:w", gradient)
        w = w - rate*gradient
        call twin_record("weight:w", w)
        call twin_step()
    end do
    print '(a, f0.3, a, f0.3)', "y = ", w(1), " x + ", w(2)

contains

    subroutine add_piece(first, last)
        integer, intent(in) :: first, last
        real :: error(last - first + 1)
        error = w(1)*x(first:last) + w(2) - y(first:last)
        loss = loss + sum(error**2)/n
        gradient = gradient + [sum(2*error*x(first:last)), sum(2*error)]/n
    end subroutine

end program
