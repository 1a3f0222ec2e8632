#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Fortran: waves by OpenMP tasks and array expressions, direct-access and unformatted files, namelists, an allocatable pyramid
# Needs: gfortran
#SBATCH --job-name=gfortran --ntasks=1 --output=log
set -eu
echo "compiling"
cat >wave.f90 <<'F'
program wave
  use, intrinsic :: iso_fortran_env
  implicit none
  integer, parameter :: n = 300
  real(real64), allocatable :: u(:, :), v(:, :), w(:, :)
  real(real64) :: speed = 0d0, energy
  integer :: turns = 0, turn, i, rec, b
  namelist /setup/ turns, speed
  open (10, file='setup.nml', status='old')
  read (10, nml=setup)
  close (10)
  allocate (u(n, n), v(n, n), w(n, n))
  u = reshape([(exp(-((mod(i, n) - 90)**2 + (i / n - 120)**2) / 200d0), i = 0, n * n - 1)], [n, n])
  v = u
  inquire (iolength=rec) u(:, 1)
  open (20, file='columns', access='direct', recl=rec, form='unformatted', status='replace')
  open (30, file='energies', action='write', status='replace')
  do turn = 1, turns
    !$omp parallel
    !$omp single
    do b = 2, n - 1, 38
      !$omp task firstprivate(b)
      call advance(b, min(b + 37, n - 1))
      !$omp end task
    end do
    !$omp end single
    !$omp end parallel
    w(1, :) = 0; w(n, :) = 0; w(:, 1) = 0; w(:, n) = 0
    call move_alloc(v, u)
    call move_alloc(w, v)
    allocate (w(n, n))
    if (mod(turn, 10) == 0) then
      energy = sum(pyramid(v**2))
      write (30, '(i6, es24.16)') turn, energy
      flush (30)
      write (20, rec=turn / 10) v(:, n / 2)
      if (mod(turn, 200) == 0) then
        write (*, '(a, i0, a, es22.14)') 'turn ', turn, ': ', energy
        flush (output_unit)
      end if
      call execute_command_line('sleep 0.06')
    end if
  end do
  read (20, rec=turns / 20) u(:, 1)
  write (*, '(a, es22.14)') 'half way: ', sum(abs(u(:, 1)))
contains
  subroutine advance(from, to)
    integer, intent(in) :: from, to
    integer :: j
    do concurrent (j = from:to)
      w(2:n-1, j) = 2 * v(2:n-1, j) - u(2:n-1, j) + speed * (v(1:n-2, j) + v(3:n, j) + v(2:n-1, j-1) + v(2:n-1, j+1) - 4 * v(2:n-1, j))
    end do
  end subroutine
  recursive function pyramid(a) result(s) ! sums of rows, and sums of their halves
    real(real64), intent(in) :: a(:, :)
    real(real64), allocatable :: s(:)
    if (size(a, 1) <= 8) then
      s = sum(a, dim=2)
    else
      s = [pyramid(a(:size(a, 1) / 2, :)), pyramid(a(size(a, 1) / 2 + 1:, :))]
    end if
  end function
end program
F
printf '&setup\n turns = 1000, speed = 0.2d0\n/\n' >setup.nml
gfortran -O2 -ffp-contract=off -fopenmp wave.f90 -o wave
OMP_NUM_THREADS=2 ./wave
rm wave
sha256sum columns energies
