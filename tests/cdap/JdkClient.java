import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;

/** Publishes and polls with the JDK's own client as it comes: it asks to upgrade to HTTP/2. */
public final class JdkClient {
  private static final HttpClient CLIENT = HttpClient.newHttpClient();

  private static String call(String url, String method, String body) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(url))
        .header("Content-Type", "application/json")
        .method(method, BodyPublishers.ofString(body))
        .build();
    HttpResponse<String> response = CLIENT.send(request, BodyHandlers.ofString());
    if (response.statusCode() != 200) {
      throw new IllegalStateException(method + " " + url + ": " + response.statusCode() + " "
          + response.body());
    }
    return response.body();
  }

  public static void main(String[] args) throws Exception {
    String topic = "http://127.0.0.1:" + args[0] + "/v1/namespaces/default/topics/jdk";
    call(topic, "PUT", "");
    for (int number = 0; number < 3; number++) {
      call(topic + "/publish", "POST", "{\"messages\": [\"" + number + "\"]}");
    }
    String polled = call(topic + "/poll", "POST", "{}");
    for (int number = 0; number < 3; number++) {
      if (!polled.contains("\"payload\":\"" + number + "\"")) {
        throw new IllegalStateException(polled);
      }
    }
    System.out.println("all held");
  }
}
