package import Glibc

/// The resident memory and the number of open file descriptors of a process, at one time.
package struct Footprint: Sendable {
    /// The resident memory, in bytes.
    package let memory: Int
    package let descriptors: Int

    /// Measures the process with the ID `process`. If `process` is nil, measures the current process.
    package init(of process: pid_t? = nil) {
        let folder = "/proc/\(process.map(String.init) ?? "self")"
        memory = Self.residentPages(folder) * sysconf(Int32(_SC_PAGESIZE))
        descriptors = Self.openDescriptors(folder)
    }

    /// Returns whether the process has not grown since `earlier`: it has no additional open descriptors, and its resident memory has grown
    /// by at most `slack` bytes. `slack` is necessary because the allocator keeps freed memory, so a small growth is not a leak.
    package func isStable(since earlier: Footprint, slack: Int) -> Bool {
        descriptors <= earlier.descriptors && memory - earlier.memory <= slack
    }

    package func growth(since earlier: Footprint) -> String {
        "memory +\((memory - earlier.memory) >> 10) KiB, file descriptors +\(descriptors - earlier.descriptors)"
    }

    /// Returns the number of resident memory pages. This is the second number in the file `statm` of the process.
    private static func residentPages(_ folder: String) -> Int {
        guard let file = fopen("\(folder)/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, CInt(line.count), file) != nil else { return 0 }
        let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let numbers = text.split(separator: " ")
        return numbers.count > 1 ? Int(numbers[1]) ?? 0 : 0
    }

    private static func openDescriptors(_ folder: String) -> Int {
        guard let folder = opendir("\(folder)/fd") else { return 0 }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        return count
    }
}
