import CLinux
import Glibc
import SystemPackage

/// The loop of the farm: waits for datagrams of all devices with epoll(7), and polls the devices when they ask for it.
struct Farm {
    let devices: [FarmDevice]
    private let poller: CInt
    private let start = ContinuousClock.now
    private var timers = TimerWheel()
    private static let standardInput = UInt64.max

    init(_ devices: [FarmDevice]) throws {
        self.devices = devices
        poller = epoll_create1(CInt(EPOLL_CLOEXEC))
        guard poller >= 0 else { throw Errno(rawValue: errno) }
        for (index, device) in devices.enumerated() { try Self.add(device.socket, UInt64(index), to: poller) }
        try Self.add(STDIN_FILENO, Self.standardInput, to: poller)
    }

    private static func add(_ descriptor: CInt, _ number: UInt64, to poller: CInt) throws {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: number))
        guard epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Serves the devices until the end of standard input.
    consuming func run() throws {
        var farm = self
        try farm.serve()
    }

    private mutating func serve() throws {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 16)
        defer { buffer.deallocate() }
        var events = [epoll_event](repeating: epoll_event(), count: 256)
        while true {
            let count = epoll_wait(poller, &events, CInt(events.count), timers.isEmpty ? 100 : 1)
            if count < 0, errno != EINTR { throw Errno(rawValue: errno) }
            let now = start.duration(to: .now)
            for event in events.prefix(Int(max(0, count))) {
                guard event.data.u64 != Self.standardInput else {
                    if !answer(buffer) { return }
                    continue
                }
                let index = Int(event.data.u64)
                devices[index].receive(buffer, at: now)
                poll(index, at: now)
            }
            for index in timers.expired(at: now) {
                guard let time = devices[index].pollTime else { continue }
                if time <= now { poll(index, at: now) } else { timers.arm(index, at: time) }
            }
        }
    }

    private mutating func poll(_ index: Int, at now: Duration) {
        let device = devices[index]
        let due = device.poll(at: now)
        if let planned = device.pollTime, planned > now, due.map({ planned <= $0 }) ?? true { return }
        device.pollTime = due
        if let due { timers.arm(index, at: due) }
    }

    /// Reads from standard input, and writes the counters. Returns false at the end of standard input.
    private func answer(_ buffer: UnsafeMutableRawBufferPointer) -> Bool {
        let count = read(STDIN_FILENO, buffer.baseAddress, buffer.count)
        guard count > 0 else { return false }
        print("[" + devices.map(\.json).joined(separator: ",") + "]")
        fflush(nil)
        return true
    }
}

/// Timers with a resolution of 1 ms. An expired number only means that the time of a timer can have come: the caller compares the times.
struct TimerWheel {
    private static let size = 4096
    private var slots = [[Int]](repeating: [], count: size)
    private var last = 0
    private var count = 0

    var isEmpty: Bool { count == 0 }

    /// Adds a timer. A timer more than 4 s in the future expires too early.
    mutating func arm(_ number: Int, at due: Duration) {
        // A time in a slot that is already handled would expire one round too late.
        let tick = min(max(Self.tick(due) + 1, last + 1), last + Self.size - 1)
        slots[tick % Self.size].append(number)
        count += 1
    }

    /// Returns the numbers of the timers that have expired since the last call.
    mutating func expired(at now: Duration) -> [Int] {
        var numbers: [Int] = []
        let tick = Self.tick(now)
        while last < tick {
            last += 1
            numbers += slots[last % Self.size]
            slots[last % Self.size].removeAll(keepingCapacity: true)
        }
        count -= numbers.count
        return numbers
    }

    private static func tick(_ time: Duration) -> Int { Int(time / .milliseconds(1)) }
}
