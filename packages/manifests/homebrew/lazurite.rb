# Not run: there is no Homebrew on the machines of the project. Builds from source.
class Lazurite < Formula
  desc "Azure-compatible Blob, Queue and Table storage in one program"
  homepage "@REPOSITORY@"
  url "@REPOSITORY@.git", tag: "v@VERSION@"
  license "MIT"
  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "server")
  end

  service do
    run [opt_bin/"lazurite", "--location", var/"lazurite", "--silent"]
    keep_alive successful_exit: false
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lazurite --version")
  end
end
