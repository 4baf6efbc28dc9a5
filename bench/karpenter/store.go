package main

import (
	"context"
	"fmt"
	"reflect"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A store is a snapshot behind the client that the scheduler reads from. It answers as a warm cache does, from maps, so
// that what is measured is the scheduler. It cannot write: a call of anything but Get, List and Scheme is a bug here
// and ends in a nil dereference.
type store struct {
	client.Client
	objects map[reflect.Type]map[client.ObjectKey]client.Object
	// Pods by the node that they are bound to; pending ones under "".
	byNode map[string][]*corev1.Pod
}

func newStore() *store {
	return &store{objects: map[reflect.Type]map[client.ObjectKey]client.Object{}, byNode: map[string][]*corev1.Pod{}}
}

func (s *store) add(object client.Object) {
	kind := reflect.TypeOf(object)
	if s.objects[kind] == nil {
		s.objects[kind] = map[client.ObjectKey]client.Object{}
	}
	key := client.ObjectKeyFromObject(object)
	if _, known := s.objects[kind][key]; known {
		return
	}
	s.objects[kind][key] = object
	if pod, is := object.(*corev1.Pod); is {
		s.byNode[pod.Spec.NodeName] = append(s.byNode[pod.Spec.NodeName], pod)
	}
}

// all returns the objects of one kind in order of namespace and name.
func all[T client.Object](s *store) []T {
	var kind T
	found := []T{}
	for _, object := range s.objects[reflect.TypeOf(kind)] {
		found = append(found, object.(T))
	}
	sort.Slice(found, func(i, j int) bool { return name(found[i]) < name(found[j]) })
	return found
}

func name(object client.Object) string {
	return object.GetNamespace() + "/" + object.GetName()
}

func (s *store) Scheme() *runtime.Scheme { return scheme.Scheme }

func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, known := s.objects[reflect.TypeOf(into)][key]
	if !known {
		// An API server does not look at the namespace of a kind that has none; Karpenter gives one with volumes.
		found, known = s.objects[reflect.TypeOf(into)][client.ObjectKey{Name: key.Name}]
	}
	if !known {
		return errors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", into)}, key.String())
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

func (s *store) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	asked := client.ListOptions{}
	asked.ApplyOptions(options)
	wanted := func(object client.Object) bool {
		in := asked.Namespace == "" || asked.Namespace == object.GetNamespace()
		return in && (asked.LabelSelector == nil || asked.LabelSelector.Matches(labelsOf(object)))
	}
	if pods, is := into.(*corev1.PodList); is {
		return s.listPods(pods, &asked, wanted)
	}
	if asked.FieldSelector != nil {
		return fmt.Errorf("no index for %s of %T", asked.FieldSelector, into)
	}
	found := []runtime.Object{}
	// A list's items are values of the kind that its Get would fill.
	items, _ := meta.GetItemsPtr(into)
	kind := reflect.PointerTo(reflect.TypeOf(items).Elem().Elem())
	for _, object := range s.objects[kind] {
		if wanted(object) {
			found = append(found, object.DeepCopyObject())
		}
	}
	sort.Slice(found, func(i, j int) bool { return name(found[i].(client.Object)) < name(found[j].(client.Object)) })
	return meta.SetList(into, found)
}

func (s *store) listPods(into *corev1.PodList, asked *client.ListOptions, wanted func(client.Object) bool) error {
	groups := s.byNode
	if asked.FieldSelector != nil {
		node, exact := asked.FieldSelector.RequiresExactMatch("spec.nodeName")
		if !exact {
			return fmt.Errorf("no index for %s of pods", asked.FieldSelector)
		}
		groups = map[string][]*corev1.Pod{node: s.byNode[node]}
	}
	into.Items = nil
	for _, pods := range groups {
		for _, pod := range pods {
			if wanted(pod) {
				into.Items = append(into.Items, *pod.DeepCopy())
			}
		}
	}
	return nil
}

type labelsOfObject map[string]string

func labelsOf(object client.Object) labelsOfObject { return object.GetLabels() }

func (l labelsOfObject) Has(key string) bool { _, has := l[key]; return has }

func (l labelsOfObject) Get(key string) string { return l[key] }

func (l labelsOfObject) Lookup(key string) (string, bool) { value, has := l[key]; return value, has }
