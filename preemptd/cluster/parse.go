// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/policies/sdk"
)

// Readers of Slurm's texts. They return no errors: a text that cannot be read counts as not there.

// gpuRequest reads "gres/gpu:a100:2,gres/nic:1": the number of GPUs, and their kind if the text
// names a kind.
func gpuRequest(tres string) (n int, kind string) {
	for item := range strings.SplitSeq(tres, ",") {
		rest, ok := strings.CutPrefix(item, "gres/gpu")
		if !ok || rest != "" && rest[0] != ':' {
			continue
		}
		parts := strings.Split(strings.TrimPrefix(rest, ":"), ":")
		count, err := strconv.Atoi(parts[len(parts)-1])
		switch {
		case err != nil: // "gres/gpu" and "gres/gpu:a100" mean 1
			n, kind = n+1, parts[len(parts)-1]
		case len(parts) > 1:
			n, kind = n+count, parts[0]
		default:
			n += count
		}
	}
	return max(n, 0), kind
}

// gpuTotal reads the number of GPUs in "cpu=2,mem=1G,gres/gpu=4,gres/gpu:a100=4".
func gpuTotal(tres string) int {
	for item := range strings.SplitSeq(tres, ",") {
		if value, ok := strings.CutPrefix(item, "gres/gpu="); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				return 0
			}
			return max(n, 0)
		}
	}
	return 0
}

// nodeGPUs reads the GPUs of a node: "gpu:a100:4(S:0-1),gpu:2".
func nodeGPUs(gres string) []sdk.GPU {
	var gpus []sdk.GPU
	for _, item := range splitOutside(gres) {
		item, _, _ = strings.Cut(item, "(")
		parts := strings.Split(item, ":")
		if parts[0] != "gpu" || len(parts) < 2 {
			continue
		}
		n, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			continue
		}
		kind := ""
		if len(parts) > 2 {
			kind = parts[1]
		}
		for range min(n, sdk.MaxGPUs-len(gpus)) {
			gpus = append(gpus, sdk.GPU{Kind: kind})
		}
	}
	return gpus
}

// gpuIndexes reads which GPUs of a node a job has: "gpu:a100:3(IDX:0-1,5)". known is false
// where Slurm does not say which.
func gpuIndexes(detail string) (set sdk.GPUSet, n int, known bool) {
	known = true
	for _, item := range splitOutside(detail) {
		head, rest, _ := strings.Cut(item, "(")
		parts := strings.Split(head, ":")
		if parts[0] != "gpu" {
			continue
		}
		if count, err := strconv.Atoi(parts[len(parts)-1]); err == nil {
			n += max(count, 0)
		}
		list, ok := strings.CutPrefix(strings.TrimSuffix(rest, ")"), "IDX:")
		one, fine := parseRanges(list)
		known = known && ok && fine
		set |= one
	}
	return set, n, known && set.Count() == n
}

// parseRanges reads "0-1,5".
func parseRanges(list string) (sdk.GPUSet, bool) {
	var set sdk.GPUSet
	for item := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(item, "-")
		if !ranged {
			to = from
		}
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || lo < 0 || hi >= sdk.MaxGPUs {
			return 0, false
		}
		for i := lo; i <= hi; i++ {
			set |= 1 << i
		}
	}
	return set, true
}

// splitOutside splits at commas outside of parentheses.
func splitOutside(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}
