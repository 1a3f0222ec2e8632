#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Ada: tasks that meet in rendezvous, a protected buffer, delays until a point in time, exceptions in tasks; built by gnatmake
# Needs: gnat
#SBATCH --job-name=ada-tasks --ntasks=1 --output=log
set -eu
echo "compiling"
cat >swarm.adb <<'ADB'
with Ada.Text_IO; use Ada.Text_IO;
with Ada.Real_Time; use Ada.Real_Time;
with Interfaces; use Interfaces;

procedure Swarm is
   subtype Worker_Id is Integer range 1 .. 4;
   type Sums is array (Worker_Id) of Unsigned_64;
   Tired : exception;

   function Mix (X : Unsigned_64) return Unsigned_64 is
      Y : constant Unsigned_64 := (X xor Shift_Right (X, 30)) * 16#bf58476d1ce4e5b9#;
   begin
      return Y xor Shift_Right (Y, 31);
   end Mix;

   protected Board is
      procedure Put (W : Worker_Id; S : Unsigned_64);
      entry Get (All_Sums : out Sums);
   private
      Have  : Natural := 0;
      Table : Sums := (others => 0);
   end Board;

   protected body Board is
      procedure Put (W : Worker_Id; S : Unsigned_64) is
      begin
         Table (W) := S;
         Have := Have + 1;
      end Put;
      entry Get (All_Sums : out Sums) when Have = Worker_Id'Last is
      begin
         All_Sums := Table;
         Have := 0;
      end Get;
   end Board;

   task type Worker is
      entry Begin_As (W : Worker_Id);
      entry Work (Turn : Positive);
   end Worker;

   task body Worker is
      Me  : Worker_Id;
      Now : Positive := 1;
      Sum : Unsigned_64;
   begin
      accept Begin_As (W : Worker_Id) do
         Me := W;
      end Begin_As;
      loop
         select
            accept Work (Turn : Positive) do
               Now := Turn;
            end Work;
         or
            terminate;
         end select;
         begin
            Sum := 0;
            for I in 1 .. 40_000 loop
               Sum := Sum + Mix (Unsigned_64 (I * Now + Me));
            end loop;
            if (Now + Me) mod 11 = 0 then
               raise Tired;
            end if;
         exception
            when Tired => Sum := Sum + 1;
         end;
         Board.Put (Me, Sum);
      end loop;
   end Worker;

   Workers : array (Worker_Id) of Worker;
   Next    : Time := Clock;
   Got     : Sums;
   Out_File : File_Type;
begin
   Create (Out_File, Ada.Text_IO.Out_File, "sums");
   for W in Worker_Id loop
      Workers (W).Begin_As (W);
   end loop;
   for Turn in 1 .. 120 loop
      for W in Worker_Id loop
         Workers (W).Work (Turn);
      end loop;
      select
         Board.Get (Got);
      or
         delay 3600.0;
         Put_Line ("no answer");
      end select;
      Put_Line (Out_File, Turn'Image & Got (1)'Image & Got (2)'Image & Got (3)'Image & Got (4)'Image);
      Flush (Out_File);
      if Turn mod 20 = 0 then
         Put_Line ("turn" & Turn'Image & Got (1)'Image);
         Flush;
      end if;
      Next := Next + Milliseconds (70);
      delay until Next;
   end loop;
   Close (Out_File);
end Swarm;
ADB
gnatmake -q -O2 swarm.adb -o swarm
./swarm
rm swarm swarm.ali swarm.o
sha256sum sums
