import Glibc

/// What this process takes of the machine.
struct Footprint: Sendable {
    /// Resident, in bytes.
    let memory: Int
    let descriptors: Int

    /// Pages of freed memory that the allocator keeps, and no more.
    private static let tolerance = 24 << 20

    /// Now, of this process.
    init() {
        memory = Self.residentPages() * sysconf(Int32(_SC_PAGESIZE))
        descriptors = Self.openDescriptors()
    }

    /// Whether it has not grown since, but for what the allocator keeps.
    func isStable(since earlier: Footprint) -> Bool {
        descriptors <= earlier.descriptors && memory - earlier.memory <= Self.tolerance
    }

    func growth(since earlier: Footprint) -> String {
        "memory \((memory - earlier.memory) >> 10) KiB more, file descriptors \(descriptors - earlier.descriptors) more"
    }

    /// The second number of statm.
    private static func residentPages() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, CInt(line.count), file) != nil else { return 0 }
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let numbers = text.split(separator: " ")
        return numbers.count > 1 ? Int(numbers[1]) ?? 0 : 0
    }

    private static func openDescriptors() -> Int {
        guard let folder = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        return count
    }
}
