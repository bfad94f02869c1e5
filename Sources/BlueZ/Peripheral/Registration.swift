import DBus

/// The registered and the wanted state of the services and advertisements at bluetoothd.
struct Registration {
    struct Entry {
        let path: DBusObjectPath
        var isRegistered = false
    }

    /// Whether the services should be registered.
    var isOpen = false
    var isApplicationRegistered = false
    var advertisements: [Int: Entry] = [:]
    private var lastNumber = 0
    /// The current attempt. Attempts run one after the other.
    var attempt: Task<Result<Void, BlueZError>, Never>?

    mutating func newNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// Clears the registered state: bluetoothd has restarted and has no registrations.
    mutating func forget() {
        isApplicationRegistered = false
        for number in advertisements.keys { advertisements[number]?.isRegistered = false }
    }
}
