// Publishes, polls, takes, and acknowledges in a commit, by the client that oapi-codegen generated.
package main

import (
	"context"
	"log"
	"os"
	"slices"

	"tms.invalid/test/api"
)

const namespace, topic, group, member = "default", "from-go", "workers", "go"

func main() {
	ctx := context.Background()
	client, err := api.NewClientWithResponses(os.Args[1])
	check(err)
	created, err := client.CreateTopicWithResponse(ctx, namespace, topic, nil, api.Properties{})
	check(err)
	expect(created.StatusCode() == 200, created.Body)

	ids := publish(ctx, client)
	polled, err := client.PollWithResponse(ctx, namespace, topic, nil, api.ConsumeRequest{})
	check(err)
	expect(polled.JSON200 != nil, polled.Body)
	messages, err := polled.JSON200.AsConsumeResponse()
	check(err)
	expect(slices.Equal(ids, idsOf(messages)), polled.Body)

	commit(ctx, client, take(ctx, client))

	missing, err := client.PollWithResponse(ctx, namespace, "none", nil, api.ConsumeRequest{})
	check(err)
	expect(missing.JSON404 != nil && missing.JSON404.Error.Code == "topic_not_found", missing.Body)
}

func publish(ctx context.Context, client *api.ClientWithResponses) []string {
	var text, keyed api.NewMessage
	var payload api.Bytes
	check(payload.FromBytes0("keyed"))
	check(text.FromBytes(payload))
	check(keyed.FromKeyedMessage(api.KeyedMessage{Payload: &payload, Key: &payload}))
	body := api.PublishBody{Messages: []api.NewMessage{text, keyed}}
	silent, err := client.PublishWithResponse(ctx, namespace, topic, nil, body)
	check(err)
	expect(silent.StatusCode() == 200 && silent.JSON200 == nil, silent.Body)
	withIds := true
	params := &api.PublishParams{Ids: &withIds}
	published, err := client.PublishWithResponse(ctx, namespace, topic, params, body)
	check(err)
	expect(published.JSON200 != nil && len(*published.JSON200.Ids) == 2, published.Body)
	all, err := client.PollWithResponse(ctx, namespace, topic, nil, api.ConsumeRequest{})
	check(err)
	messages, err := all.JSON200.AsConsumeResponse()
	check(err)
	expect(slices.Equal(*published.JSON200.Ids, idsOf(messages)[2:]), all.Body)
	return idsOf(messages)
}

func take(ctx context.Context, client *api.ClientWithResponses) *api.Taken {
	var request api.SubscriptionRequest
	start := "start"
	settings := api.GroupRequest{Kind: api.GroupRequestKindShared, After: &start}
	check(request.FromGroupRequest(settings))
	made, err := client.CreateSubscriptionWithResponse(ctx, namespace, topic, group, nil, request)
	check(err)
	expect(made.JSON200 != nil, made.Body)
	count := 3
	body := api.TakeBody{Member: member, Messages: &count}
	taken, err := client.TakeWithResponse(ctx, namespace, topic, group, nil, body)
	check(err)
	expect(taken.JSON200 != nil && len(taken.JSON200.Messages) == count, taken.Body)
	return taken.JSON200
}

// commit publishes the first message again, and acknowledges what was taken, in one step.
func commit(ctx context.Context, client *api.ClientWithResponses, taken *api.Taken) {
	started, err := client.StartTransactionWithResponse(ctx, nil, api.StartRequest{})
	check(err)
	expect(started.JSON200 != nil, started.Body)
	var pointer api.WritePointer
	check(pointer.FromTransactionId(started.JSON200.WritePointer))
	var result api.NewMessage
	var payload api.Bytes
	check(payload.FromBytes0("result"))
	check(result.FromBytes(payload))
	body := api.PublishBody{
		Messages:                []api.NewMessage{result},
		TransactionWritePointer: &pointer,
	}
	published, err := client.PublishWithResponse(ctx, namespace, topic, nil, body)
	check(err)
	expect(published.JSON200 != nil && published.JSON200.RollbackRange != nil, published.Body)
	acks := []api.CommitAcks{{
		Namespace: namespace, Topic: topic, Subscription: group,
		Member: member, Delivery: *taken.Delivery, Ids: idsOf(taken.Messages),
	}}
	id := started.JSON200.TransactionId
	done, err := client.CommitTransactionWithResponse(ctx, id, nil, api.CommitRequest{Acks: &acks})
	check(err)
	expect(done.StatusCode() == 200, done.Body)
}

func idsOf(messages []api.Message) []string {
	ids := []string{}
	for _, message := range messages {
		ids = append(ids, message.Id)
	}
	return ids
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func expect(isSo bool, answer []byte) {
	if !isSo {
		log.Panicf("not as expected: %s", answer)
	}
}
