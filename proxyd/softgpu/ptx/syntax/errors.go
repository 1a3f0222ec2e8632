// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package syntax

import "fmt"

// Error is a text that is not PTX, or not valid PTX.
type Error struct {
	Module string // the name given to Parse
	Line   int    // 0 when the whole module is meant
	Msg    string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s, line %d: %s", e.Module, e.Line, e.Msg)
}
