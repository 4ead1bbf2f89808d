import static java.util.Arrays.asList;

import io.cdap.cdap.api.dataset.lib.CloseableIterator;
import io.cdap.cdap.api.messaging.TopicAlreadyExistsException;
import io.cdap.cdap.api.messaging.TopicNotFoundException;
import io.cdap.cdap.common.conf.Constants;
import io.cdap.cdap.common.discovery.URIScheme;
import io.cdap.cdap.messaging.MessageFetcher;
import io.cdap.cdap.messaging.MessagingService;
import io.cdap.cdap.messaging.RollbackDetail;
import io.cdap.cdap.messaging.TopicMetadata;
import io.cdap.cdap.messaging.client.ClientMessagingService;
import io.cdap.cdap.messaging.client.StoreRequestBuilder;
import io.cdap.cdap.messaging.data.RawMessage;
import io.cdap.cdap.proto.id.NamespaceId;
import io.cdap.cdap.proto.id.TopicId;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.tephra.Transaction;
import org.apache.twill.discovery.InMemoryDiscoveryService;

/** Goes through all that CDAP's client can do: {@code CdapClient PORT}. Exits with 0 if all held. */
public final class CdapClient {
  private final MessagingService client;
  private final TopicId topic;

  private CdapClient(MessagingService client, TopicId topic) {
    this.client = client;
    this.topic = topic;
  }

  public static void main(String[] args) throws Exception {
    InMemoryDiscoveryService discovery = new InMemoryDiscoveryService();
    InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]));
    discovery.register(
        URIScheme.HTTP.createDiscoverable(Constants.Service.MESSAGING_SERVICE, address));
    for (boolean compressed : new boolean[] {false, true}) {
      TopicId topic = new NamespaceId("default").topic("java-" + compressed);
      CdapClient cdap = new CdapClient(new ClientMessagingService(discovery, compressed), topic);
      cdap.topics();
      cdap.transactions();
      cdap.positions();
      cdap.largeRequests();
      cdap.deletion();
      TopicId shared = new NamespaceId("shared").topic("keyed");
      new CdapClient(new ClientMessagingService(discovery, compressed), shared).ofOthers();
    }
    System.out.println("all held");
    System.exit(0);
  }

  private void topics() throws Exception {
    client.createTopic(new TopicMetadata(topic, "ttl", 1000));
    try {
      client.createTopic(new TopicMetadata(topic));
      throw new AssertionError("created twice");
    } catch (TopicAlreadyExistsException expected) {
      same(client.getTopic(topic).getTTL(), 1000L);
    }
    same(client.getTopic(topic).getGeneration(), 1);
    client.updateTopic(new TopicMetadata(topic, "ttl", 2000));
    same(client.getTopic(topic).getTTL(), 2000L);
    same(client.listTopics(new NamespaceId("default")), asList(topic));
    same(client.listTopics(new NamespaceId("absent")), asList());
  }

  private void transactions() throws Exception {
    same(client.publish(request("a", "b").build()), null);
    long pointer = System.currentTimeMillis() * 1_000_000;
    client.storePayload(request("s1", "s2").setTransaction(pointer).build());
    client.publish(request().setTransaction(pointer).build());
    RollbackDetail detail = client.publish(request("rolled").setTransaction(pointer + 1).build());
    same(detail.getTransactionWritePointer(), pointer + 1);
    client.publish(request("c").build());
    same(payloads(fetch()), asList("a", "b", "s1", "s2", "rolled", "c"));
    client.rollback(topic, detail);
    same(payloads(fetch()), asList("a", "b", "s1", "s2", "rolled", "c"));
    long[] none = {};
    Transaction later = new Transaction(pointer + 10, pointer + 20, none, none, Long.MAX_VALUE);
    same(payloads(fetch().setTransaction(later)), asList("a", "b", "s1", "s2", "c"));
    long[] first = {pointer};
    Transaction amid = new Transaction(pointer + 10, pointer + 20, none, first, pointer);
    same(payloads(fetch().setTransaction(amid)), asList("a", "b"));
    Transaction invalid = new Transaction(pointer + 10, pointer + 20, first, none, Long.MAX_VALUE);
    same(payloads(fetch().setTransaction(invalid)), asList("a", "b", "c"));
  }

  private void positions() throws Exception {
    List<RawMessage> messages = messages(fetch().setLimit(3));
    byte[] insideBatch = messages.get(2).getId();
    same(payloads(fetch().setStartMessage(insideBatch, false)), asList("s2", "rolled", "c"));
    same(payloads(fetch().setStartMessage(insideBatch, true).setLimit(2)), asList("s1", "s2"));
    byte[] second = messages.get(1).getId();
    same(payloads(fetch().setStartMessage(second, true).setLimit(1)), asList("b"));
    same(payloads(fetch().setStartTime(0).setLimit(1)), asList("a"));
    same(payloads(fetch().setStartTime(System.currentTimeMillis() + 60_000)), asList());
  }

  private void largeRequests() throws Exception {
    StoreRequestBuilder many = request();
    for (int i = 0; i < 70_000; i++) {
      many.addPayload("m" + i);
    }
    client.publish(many.build());
    byte[] large = new byte[5 << 20];
    new Random(1).nextBytes(large);
    client.publish(request().addPayload(large).build());
    List<RawMessage> messages = messages(fetch());
    same(messages.size(), 70_007);
    same(java.util.Arrays.equals(messages.get(70_006).getPayload(), large), true);
  }

  private void deletion() throws Exception {
    client.deleteTopic(topic);
    try {
      payloads(fetch());
      throw new AssertionError("fetched from a deleted topic");
    } catch (TopicNotFoundException expected) {
      client.createTopic(new TopicMetadata(topic));
    }
    same(client.getTopic(topic).getGeneration(), 2);
    same(payloads(fetch()), asList());
    client.deleteTopic(topic);
  }

  /** A topic to which others publish messages with keys and headers, and without payloads. */
  private void ofOthers() throws Exception {
    List<String> found = payloads(fetch());
    same(found.subList(0, 4), asList("alone", "keyed", "headers", ""));
    same(client.publish(request("from Java").build()), null);
    long pointer = System.currentTimeMillis() * 1_000_000;
    client.storePayload(request("stored").setTransaction(pointer).build());
    client.publish(request().setTransaction(pointer).build());
    same(payloads(fetch()).size(), found.size() + 2);
  }

  private StoreRequestBuilder request(String... payloads) {
    StoreRequestBuilder builder = StoreRequestBuilder.of(topic);
    for (String payload : payloads) {
      builder.addPayload(payload);
    }
    return builder;
  }

  private MessageFetcher fetch() throws Exception {
    return client.prepareFetch(topic);
  }

  private static List<RawMessage> messages(MessageFetcher fetcher) throws Exception {
    List<RawMessage> found = new ArrayList<>();
    try (CloseableIterator<RawMessage> messages = fetcher.fetch()) {
      messages.forEachRemaining(found::add);
    }
    return found;
  }

  private static List<String> payloads(MessageFetcher fetcher) throws Exception {
    List<String> found = new ArrayList<>();
    for (RawMessage message : messages(fetcher)) {
      found.add(new String(message.getPayload(), StandardCharsets.UTF_8));
    }
    return found;
  }

  private static void same(Object found, Object expected) {
    if (!java.util.Objects.equals(found, expected)) {
      throw new AssertionError(found + " is not " + expected);
    }
  }
}
