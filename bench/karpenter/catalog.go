package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// The label that names a reservation in Karpenter's AWS provider.
const reservationLabel = "karpenter.k8s.aws/capacity-reservation-id"

// catalogs keeps the catalogues that were read, by path.
type catalogs map[string][]*cloudprovider.InstanceType

type catalogEntry struct {
	Name        string              `json:"name"`
	Labels      map[string]string   `json:"labels"`
	Capacity    corev1.ResourceList `json:"capacity"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	Offerings   []struct {
		Zone         string  `json:"zone"`
		CapacityType string  `json:"capacityType"`
		Price        float64 `json:"price"`
		Available    bool    `json:"available"`
		Reservation  *struct {
			ID    string `json:"id"`
			Count int    `json:"count"`
		} `json:"reservation"`
	} `json:"offerings"`
}

func (c catalogs) read(path string) ([]*cloudprovider.InstanceType, error) {
	if known, is := c[path]; is {
		return known, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries []catalogEntry
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	cloudprovider.ReservationIDLabel = reservationLabel
	cloudprovider.ReservedCapacityLabels.Insert(reservationLabel)
	karpenter.WellKnownLabels.Insert(reservationLabel)
	karpenter.WellKnownLabelsForOfferings.Insert(reservationLabel)
	keys := sets.New[string]()
	for _, entry := range entries {
		keys.Insert(sets.KeySet(entry.Labels).UnsortedList()...)
	}
	karpenter.WellKnownLabels.Insert(keys.UnsortedList()...)
	kinds := make([]*cloudprovider.InstanceType, 0, len(entries))
	for _, entry := range entries {
		kinds = append(kinds, instanceType(entry, keys))
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].Name < kinds[j].Name })
	c[path] = kinds
	return kinds, nil
}

// instanceType says of every label that some type has whether this one has it, as cloud providers must.
func instanceType(entry catalogEntry, keys sets.Set[string]) *cloudprovider.InstanceType {
	requirements := scheduling.NewRequirements(scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, entry.Name))
	for key := range keys {
		if value, has := entry.Labels[key]; has {
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, value))
		} else {
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	zones, capacityTypes, reservations := sets.New[string](), sets.New[string](), sets.New[string]()
	offerings := cloudprovider.Offerings{}
	for _, offered := range entry.Offerings {
		zones.Insert(offered.Zone)
		capacityTypes.Insert(offered.CapacityType)
		made := &cloudprovider.Offering{Available: offered.Available, Price: offered.Price, Requirements: scheduling.NewRequirements(
			scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, offered.Zone),
			scheduling.NewRequirement(karpenter.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, offered.CapacityType),
		)}
		reservation := scheduling.NewRequirement(reservationLabel, corev1.NodeSelectorOpDoesNotExist)
		if offered.Reservation != nil {
			reservations.Insert(offered.Reservation.ID)
			reservation = scheduling.NewRequirement(reservationLabel, corev1.NodeSelectorOpIn, offered.Reservation.ID)
			made.ReservationCapacity = offered.Reservation.Count
		}
		made.Requirements.Add(reservation)
		offerings = append(offerings, made)
	}
	requirements.Add(scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, sets.List(zones)...))
	requirements.Add(scheduling.NewRequirement(karpenter.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, sets.List(capacityTypes)...))
	if len(reservations) > 0 {
		requirements.Add(scheduling.NewRequirement(reservationLabel, corev1.NodeSelectorOpIn, sets.List(reservations)...))
	} else {
		requirements.Add(scheduling.NewRequirement(reservationLabel, corev1.NodeSelectorOpDoesNotExist))
	}
	capacity, reserved := entry.Allocatable, corev1.ResourceList{}
	if len(entry.Capacity) > 0 {
		capacity = entry.Capacity
		for resource, total := range entry.Capacity {
			total.Sub(entry.Allocatable[resource])
			reserved[resource] = total
		}
	}
	return &cloudprovider.InstanceType{Name: entry.Name, Requirements: requirements, Offerings: offerings, Capacity: capacity,
		Overhead: &cloudprovider.InstanceTypeOverhead{KubeReserved: reserved}}
}
