// Does what the Thrift gateways cannot, as commands of hbase shell do: dev/hbase/regions.py.
//
//   split TABLE ROW    the region of ROW in two, at ROW
//   merge TABLE ROW    the region of ROW with the next one
//   move TABLE ROW     the region of ROW to another server
//   snapshot TABLE NAME, restore TABLE NAME    all tables whose names begin with TABLE; NAME is also in
//                      hexadecimal digits, and a part of each snapshot's name
//
// ROW is in hexadecimal digits.

import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionLocator;

public final class Regions {
    private static final int CALL_MS_MAX = 60_000;

    public static void main(String[] arguments) throws Exception {
        String verb = arguments[0];
        TableName table = TableName.valueOf(arguments[1]);
        byte[] row = HexFormat.of().parseHex(arguments[2]);
        Configuration conf = HBaseConfiguration.create();
        for (String limit : new String[] {"hbase.rpc.timeout", "hbase.client.operation.timeout"}) {
            conf.setInt(limit, CALL_MS_MAX); // the gateway's own are too short for a busy machine
        }
        if (verb.equals("snapshot") || verb.equals("restore")) {
            try (Connection connection = ConnectionFactory.createConnection(conf);
                    Admin admin = connection.getAdmin()) {
                ofAll(admin, verb, arguments[1], new String(row));
            }
            return;
        }
        try (Connection connection = ConnectionFactory.createConnection(conf);
                Admin admin = connection.getAdmin();
                RegionLocator locator = connection.getRegionLocator(table)) {
            HRegionLocation found = locator.getRegionLocation(row, true);
            byte[] name = found.getRegion().getEncodedNameAsBytes();
            switch (verb) {
                case "split" -> admin.splitRegionAsync(found.getRegion().getRegionName(), row).get();
                case "merge" -> {
                    byte[] next = locator
                        .getRegionLocation(found.getRegion().getEndKey(), true)
                        .getRegion().getEncodedNameAsBytes();
                    admin.mergeRegionsAsync(new byte[][] {name, next}, true).get();
                }
                case "move" -> {
                    Collection<ServerName> servers = new ArrayList<>(admin.getRegionServers());
                    servers.remove(found.getServerName());
                    admin.move(name, servers.iterator().next());
                }
                default -> throw new IllegalArgumentException(verb);
            }
        }
    }

    private static void ofAll(Admin admin, String verb, String prefix, String name) throws Exception {
        for (TableName table : admin.listTableNames(Pattern.compile(Pattern.quote(prefix) + ".*"))) {
            String snapshot = name + "-" + table.getQualifierAsString();
            if (verb.equals("snapshot")) {
                admin.snapshot(snapshot, table);
            } else {
                admin.disableTable(table);
                admin.restoreSnapshot(snapshot);
                admin.enableTable(table);
            }
        }
    }
}
