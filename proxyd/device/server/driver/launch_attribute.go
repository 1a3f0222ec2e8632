// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"slices"

	"github.com/singularity-slurm/singularity-slurm/proxyd/device/backend"
	"github.com/singularity-slurm/singularity-slurm/proxyd/device/dispatch"
)

// SetLaunchAttribute sets an attribute of a launch, in the place of an earlier value. An attribute that is only a hint
// is ignored.
func SetLaunchAttribute(l *backend.Launch, id int32, value dispatch.Launchvalue) {
	of := backend.LaunchAttributeID(id)
	switch {
	case of == backend.AttributeCooperative:
		l.Cooperative = uint32(value.Word[0]) != 0
	case of.KeepAttribute():
		l.Attributes = slices.DeleteFunc(slices.Clone(l.Attributes), func(a backend.LaunchAttribute) bool { return a.ID == of })
		l.Attributes = append(l.Attributes, backend.LaunchAttribute{ID: of, Value: value.Word})
	}
}
