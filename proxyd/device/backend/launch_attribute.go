// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package backend

// LaunchAttribute is an attribute of a launch, with a value as the driver has it.
type LaunchAttribute struct {
	ID    LaunchAttributeID
	Value [8]uint64
}

// LaunchAttributeID is the number of an attribute of launches, as the driver numbers them.
type LaunchAttributeID int32

// The attributes of launches that have an effect on the device.
const (
	AttributeClusterDimension  LaunchAttributeID = 4  // blocks of a cluster: x and y in the first word, z in the second
	AttributeClusterScheduling LaunchAttributeID = 5  // how clusters are spread over multiprocessors
	AttributeStreamSerial      LaunchAttributeID = 6  // the kernel may begin before the kernel before it has ended
	AttributePreferredCluster  LaunchAttributeID = 11 // like AttributeClusterDimension, where there is room for such clusters
	AttributeSharedCarveout    LaunchAttributeID = 14 // shared memory beside the first cache, in percent
	AttributeCooperative       LaunchAttributeID = 2  // Launch.Cooperative
)

// KeepAttribute tells whether a launch keeps an attribute: other attributes are hints, or Launch has a field for them.
func (id LaunchAttributeID) KeepAttribute() bool {
	switch id {
	case AttributeClusterDimension, AttributeClusterScheduling, AttributeStreamSerial, AttributePreferredCluster, AttributeSharedCarveout:
		return true
	}
	return false
}

// ClusterBlocks is how many blocks each cluster of the launch has: 1 if the launch has no attribute for clusters.
func (l *Launch) ClusterBlocks() uint64 {
	for _, a := range l.Attributes {
		if a.ID == AttributeClusterDimension {
			x, y, z := uint32(a.Value[0]), uint32(a.Value[0]>>32), uint32(a.Value[1])
			return max(uint64(x), 1) * max(uint64(y), 1) * max(uint64(z), 1)
		}
	}
	return 1
}

// ClusterFunction is a Function of a device that can run blocks in clusters. On other devices each block is a cluster.
type ClusterFunction interface {
	// ActiveClusters is how many clusters of a launch the device can run at once.
	ActiveClusters(*Launch) (int, error)
	// LargestCluster is how many blocks a cluster of such a launch may have.
	LargestCluster(*Launch) (int, error)
}
