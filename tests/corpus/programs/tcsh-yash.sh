#!/bin/bash
# SPDX-FileCopyrightText: 2026 The singularity-slurm authors
# SPDX-License-Identifier: Apache-2.0
#
# What: tcsh and yash, a shell beside bash each: history and aliases, arrays, foreach and while, backquotes; yash reads what tcsh says
# Needs: tcsh yash
#SBATCH --job-name=tcsh-yash --ntasks=1 --output=log
set -eu
cat >one.csh <<'C'
#!/bin/tcsh -f
alias double 'expr \!:1 \* 2'
set turn = 0
set all = ()
while ( $turn < 60 )
	@ turn++
	@ x = ( $turn * 7919 + 13 ) % 1009
	set all = ( $all $x )
	if ( $#all > 9 ) shift all
	switch ( $x )
	case *7:
		set kind = seven
		breaksw
	case [12]*:
		set kind = low
		breaksw
	default:
		set kind = other
	endsw
	set d = `double $x`
	( sleep 0.1 ) >& /dev/null
	echo "$turn $x $kind $d $all[$#all] ${%all}"
end
C
cat >two.yash <<'Y'
typeset -i sum=0 2>/dev/null || sum=0
array kinds
exec 3>rows
while read -r turn x kind d last rest; do
	sum=$((sum + x * d))
	array -i kinds -1 "$kind" 2>/dev/null || kinds=("$kinds" "$kind")
	printf '%d %d %s %d\n' "$turn" "$sum" "$kind" "${#kinds}" >&3
	wait 2>/dev/null & wait $!
	if [ $((turn % 12)) -eq 0 ]; then echo "turn $turn: $sum"; fi
done
exec 3>&-
echo "${kinds[1]} ${kinds[-1]} of ${kinds[#]}"
Y
echo "counting"
tcsh -f one.csh | tee heard | yash two.yash
sha256sum heard rows
