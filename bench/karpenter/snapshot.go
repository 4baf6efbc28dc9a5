package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// readSnapshot takes in a List, or the file of which the path is given as a JSON string.
func readSnapshot(raw json.RawMessage) (*store, error) {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) {
		var path string
		if err := json.Unmarshal(raw, &path); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		raw = text
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	objects := newStore()
	decoder := scheme.Codecs.UniversalDeserializer()
	for index, item := range list.Items {
		object, _, err := decoder.Decode(item, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			// Kinds of others, such as EC2NodeClass, say nothing to the scheduler.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("item %d of the snapshot: %w", index, err)
		}
		complete(object.(client.Object), index)
		objects.add(object.(client.Object))
	}
	return objects, nil
}

// complete adds what a live API server and Karpenter's other controllers would have written.
func complete(object client.Object, index int) {
	if object.GetUID() == "" {
		object.SetUID(types.UID(fmt.Sprintf("object-%06d", index)))
	}
	switch object := object.(type) {
	case *corev1.Pod:
		if object.Namespace == "" {
			object.Namespace = "default"
		}
	case *karpenter.NodePool:
		if object.Spec.Template.Spec.ExpireAfter.Duration == nil {
			object.Spec.Template.Spec.ExpireAfter = karpenter.MustParseNillableDuration("720h")
		}
		conditions := object.StatusConditions()
		for _, kind := range []string{karpenter.ConditionTypeValidationSucceeded, karpenter.ConditionTypeNodeClassReady, status.ConditionReady} {
			conditions.SetTrue(kind)
		}
	}
}
