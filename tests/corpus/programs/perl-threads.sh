#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: Perl with interpreter threads: shared arrays with conditions, queues, semaphores, signals to a thread, a detached one
# Needs: perl
#SBATCH --job-name=perl-threads --ntasks=1 --output=log
set -eu
cat >swarm.pl <<'PL'
use strict; use warnings;
use threads; use threads::shared;
use Thread::Queue; use Thread::Semaphore;
use Digest::SHA qw(sha256_hex);
use Time::HiRes qw(sleep);
$| = 1;
my ($ask, $answers) = (Thread::Queue->new, Thread::Queue->new);
my $room = Thread::Semaphore->new(2);
my %seen :shared; my $done :shared = 0; my $beats :shared = 0;
my @workers = map { my $id = $_; threads->create(sub {
	while (defined(my $job = $ask->dequeue)) {
		my ($turn, $part) = @$job;
		$room->down;
		my $d = "$turn/$part";
		$d = sha256_hex($d) for 1 .. 1500;
		$room->up;
		{ lock %seen; $seen{$part}++; $done++; cond_broadcast(%seen); }
		$answers->enqueue([$part, $d]);
	}
	return $id * $id;
}) } 1 .. 4;
my $listener = threads->create(sub {
	local $SIG{USR1} = sub { lock $beats; $beats++; cond_signal($beats) };
	local $SIG{TERM} = sub { threads->exit };
	sleep 0.01 while 1;
});
threads->create(sub { sleep 0.5 while 1 })->detach;
open my $out, '>', 'digests' or die;
print "digesting\n";
for my $turn (1 .. 80) {
	$ask->enqueue([$turn, $_]) for 1 .. 6;
	my @got = sort { $a->[0] <=> $b->[0] } map { $answers->dequeue } 1 .. 6;
	$listener->kill('USR1');
	{ lock $beats; cond_wait($beats) while $beats < $turn; }
	{ lock %seen; cond_wait(%seen) while $done < 6 * $turn; }
	print $out "$turn @{[map { substr $_->[1], 0, 16 } @got]}\n";
	print "turn $turn: $beats beats\n" if $turn % 16 == 0;
	sleep 0.05;
}
close $out;
$ask->end;
print "workers returned @{[map { $_->join } @workers]}\n";
$listener->kill('TERM')->join;
print "seen @{[map { \"$_:$seen{$_}\" } sort keys %seen]}\n";
PL
perl swarm.pl
sha256sum digests
