#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Free Pascal: threads with critical sections and events, typed files, sets, ANSI strings; its own compiler and linker script
# Needs: fp-compiler fp-units-rtl
#SBATCH --job-name=free-pascal --ntasks=1 --output=log
set -eu
echo "compiling"
cat >swarm.pas <<'PAS'
program swarm;
{$mode objfpc}{$H+}
uses cthreads, classes, sysutils;

type
  TRow = packed record turn, worker: longint; sum: qword; end;
  TWorker = class(TThread)
    id, turn: longint; sum: qword;
    go, done: PRTLEvent;
    procedure Execute; override;
  end;

var
  lock: TRTLCriticalSection;
  seen: TStringList;

function mix(x: qword): qword;
begin
  {$push}{$R-}{$Q-}
  x := (x xor (x shr 30)) * qword($bf58476d1ce4e5b9);
  {$pop}
  mix := x xor (x shr 31);
end;

procedure TWorker.Execute;
var i: longint;
begin
  while true do begin
    RTLEventWaitFor(go);
    if turn = 0 then exit;
    sum := 0;
    for i := 1 to 60000 do sum := sum xor mix(qword(i) * turn + id);
    EnterCriticalSection(lock);
    try seen.Add(format('%.3d/%d', [turn, id])); finally LeaveCriticalSection(lock); end;
    RTLEventSetEvent(done);
  end;
end;

var
  ws: array[0..2] of TWorker;
  f: file of TRow;
  row: TRow;
  w, turn: longint;
begin
  InitCriticalSection(lock); seen := TStringList.Create; seen.Sorted := true;
  for w := 0 to 2 do begin
    ws[w] := TWorker.Create(true); ws[w].id := w;
    ws[w].go := RTLEventCreate; ws[w].done := RTLEventCreate;
    ws[w].Start;
  end;
  assign(f, 'rows'); rewrite(f);
  for turn := 1 to 120 do begin
    for w := 0 to 2 do begin ws[w].turn := turn; RTLEventSetEvent(ws[w].go); end;
    for w := 0 to 2 do begin
      RTLEventWaitFor(ws[w].done);
      row.turn := turn; row.worker := w; row.sum := ws[w].sum;
      write(f, row);
    end;
    if turn mod 20 = 0 then begin
      seek(f, filesize(f) div 2); read(f, row); seek(f, filesize(f));
      writeln('turn ', turn, ': ', seen.Count, ' seen, in the middle ', row.turn, ' ', row.sum);
      flush(output);
    end;
    sleep(60);
  end;
  for w := 0 to 2 do begin ws[w].turn := 0; RTLEventSetEvent(ws[w].go); ws[w].WaitFor; end;
  close(f);
  seen.SaveToFile('seen');
end.
PAS
fpc -l- -v0 -O2 swarm.pas
./swarm
rm swarm swarm.o
sha256sum rows seen
