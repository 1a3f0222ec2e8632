#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: perl: forked workers on socket pairs, select, alarm, sprintf and regular expressions
# Needs: perl
#SBATCH --job-name=perl-forks --ntasks=1 --output=log
set -eu
cat >forks.pl <<'PERL'
use strict; use warnings;
use Digest::SHA qw(sha256_hex); use IO::Select; use Socket; use IO::Handle;
$| = 1;
print "forking\n";
my ($select, %name, %count, @lines) = (IO::Select->new);
for my $n (1 .. 4) {
	socketpair(my $here, my $there, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!";
	if (!fork) {
		close $here;
		$there->autoflush(1);
		my $h = $n;
		for my $i (1 .. 35) {
			$h = sha256_hex($h) for 1 .. 1000;
			(my $words = $h) =~ s/([0-9]+)/<$1>/g;
			print $there "$n $i $words\n";
			my $answer = <$there>;
			die "answer $answer" unless $answer =~ /^ok $n\.$i$/;
			select(undef, undef, undef, 0.18);
		}
		exit $n;
	}
	close $there;
	$here->autoflush(1);
	$select->add($here);
}
my $alarms = 0;
local $SIG{ALRM} = sub { $alarms++; alarm 1 if $alarms < 5 };
alarm 1;
while ($select->count) {
	for my $fh ($select->can_read) {
		my $line = <$fh>;
		if (!defined $line) { $select->remove($fh); close $fh; next }
		my ($n, $i) = split ' ', $line;
		push @lines, $line;
		print $fh "ok $n.$i\n";
		printf "heard %d lines\n", scalar @lines if @lines % 28 == 0;
	}
}
my %code;
while ((my $pid = wait) > 0) { $code{$? >> 8}++ }
print "exit codes ", join(" ", map "$_:$code{$_}", sort keys %code), ", alarms $alarms\n";
open my $out, '>', 'lines' or die;
print $out sort @lines;
PERL
perl forks.pl
sha256sum lines
