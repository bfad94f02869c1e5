import DBus

/// What bluetoothd has been told to offer, and what it should be.
struct Registration {
    struct Entry {
        let path: DBusObjectPath
        var isRegistered = false
    }

    /// Whether the services are wanted.
    var isOpen = false
    var isApplicationRegistered = false
    var advertisements: [Int: Entry] = [:]
    private var lastNumber = 0
    /// The attempt that is under way: one after the other.
    var attempt: Task<Result<Void, BlueZError>, Never>?

    mutating func newNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// bluetoothd has forgotten everything.
    mutating func forget() {
        isApplicationRegistered = false
        for number in advertisements.keys { advertisements[number]?.isRegistered = false }
    }
}
