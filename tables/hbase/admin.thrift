// What creating a table takes of HBase's second Thrift interface (hbase.thrift, thrift2). Only the
// fields that are used; their numbers are HBase's.
exception TIOError {
  1: optional string message
}

struct TTableName {
  1: optional binary ns
  2: required binary qualifier
}

struct TColumnFamilyDescriptor {
  1: required binary name
  2: optional map<binary, binary> attributes
}

struct TTableDescriptor {
  1: required TTableName tableName
  2: optional list<TColumnFamilyDescriptor> columns
}

service THBaseService {
  void createTable(1: required TTableDescriptor desc, 2: list<binary> splitKeys) throws (1: TIOError io)
}
