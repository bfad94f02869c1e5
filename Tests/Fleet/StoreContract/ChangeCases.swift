import OTAStore

extension StoreContract {
    static let changeCases = [
        Case("a watch starts with all records of its bucket, and continues with the changes of all clients") { stores in
            let a = try RecordKey.of(.devices, "a")
            let b = try RecordKey.of(.devices, "b")
            let first = try await stores.first.put("a1", at: a)
            _ = try await stores.first.put("other", at: .of(.progress, "a"))
            try await stores.first.withChanges(of: .devices) { changes in
                var iterator = changes.makeAsyncIterator()
                try expect(await iterator.next()?.bytes, Array("a1".utf8), "the record before the watch")
                _ = try await stores.second.put("other", at: .of(.progress, "b"))
                let created = try await stores.second.put("b1", at: b)
                try expect(await iterator.next()?.revision, created, "a record of the other client")
                let changed = try await stores.first.put("a2", at: a, expecting: first)
                let record = try await iterator.next()
                try expect(record, StoredRecord(key: a, revision: changed, bytes: Array("a2".utf8)), "a change")
            }
        },
        Case("a watch reports the changes of a record in order, and always the last one") { stores in
            let key = try RecordKey.of(.devices, "a")
            try await withThrowingTaskGroup { group in
                group.addTask {
                    var revision = Revision.absent
                    for number in 1...30 {
                        let store = number % 2 == 0 ? stores.first : stores.second
                        revision = try await store.put(String(number), at: key, expecting: revision)
                    }
                }
                try await stores.second.withChanges(of: .devices) { changes in
                    var last = 0
                    for try await record in changes {
                        let number = Int(String(decoding: record.bytes, as: UTF8.self)) ?? 0
                        try expect(number >= last, true, "\(number) after \(last)")
                        last = number
                        if number == 30 { return }
                    }
                    throw Violation(description: "the watch ended after change \(last)")
                }
                try await group.waitForAll()
            }
        },
        Case("several watches of one bucket report each change") { stores in
            let key = try RecordKey.of(.rollouts, "t-140")
            try await withThrowingTaskGroup { group in
                for store in [stores.first, stores.first, stores.second] {
                    group.addTask {
                        try await store.withChanges(of: .rollouts) { changes in
                            for try await record in changes where record.bytes == [UInt8(ascii: "2")] { return }
                            throw Violation(description: "the watch ended")
                        }
                    }
                }
                let revision = try await stores.first.put("1", at: key)
                _ = try await stores.first.put("2", at: key, expecting: revision)
                try await group.waitForAll()
            }
        },
        Case("a watch ends when its task is cancelled") { stores in
            try await withThrowingTaskGroup { group in
                group.addTask {
                    try await stores.first.withChanges(of: .devices) { changes in
                        for try await _ in changes {}
                    }
                }
                group.cancelAll()
                try await group.waitForAll()
            }
        },
    ]
}
