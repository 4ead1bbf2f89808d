// Splits, merges and moves regions, which the Thrift gateways cannot: dev/hbase/regions.py.
//
//   split TABLE ROW    the region of ROW in two, at ROW
//   merge TABLE ROW    the region of ROW with the next one
//   move TABLE ROW     the region of ROW to another server
//
// ROW is in hexadecimal digits.

import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionLocator;

public final class Regions {
    public static void main(String[] arguments) throws Exception {
        String verb = arguments[0];
        TableName table = TableName.valueOf(arguments[1]);
        byte[] row = HexFormat.of().parseHex(arguments[2]);
        try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
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
}
